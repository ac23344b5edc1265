"""docs/hooks.md against the code: its agents can be loaded, its receiver understands us, its numbers are the code's."""

import importlib.util
import re
import threading
from http.server import HTTPServer
from pathlib import Path
from typing import Any, get_args

import pytest

from agent_core.agents import Hook, HookEvent, HookType, Operator, chain
from agent_core.channels import Channels
from agent_core.clock import SystemClock
from agent_core.hooks.chain import Allow, Deny, Occasion
from agent_core.hooks.http import MASK, MAX_SECRET, MAX_TIMEOUT, MIN_SECRET, MIN_TIMEOUT, PURPOSE
from agent_core.hooks.rules import MAX_CONDITIONS, MAX_VALUES, HookResolvers, check_rule, path_of
from agent_core.net.fetch import Fetch
from agent_core.schemas import _WORK
from app.files import read_agent
from tests.conftest import SECRETS

PAGE = (Path(__file__).parents[2] / "docs" / "hooks.md").read_text("utf-8")
SECRET = "the-secret-of-the-page"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("text", blocks("yaml"))
def test_each_agent_of_the_page_can_be_loaded(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Each agent on the page can be loaded."""
    from agent_core.hooks.rules import check  # noqa: PLC0415 - beside its only use
    from app.compose import CHANNELS  # noqa: PLC0415 - as above

    monkeypatch.setenv("HOOK_SECRET", SECRET)
    (tmp_path / "agent.yaml").write_text(text)
    made = read_agent(tmp_path / "agent.yaml", None)
    check(made.hooks, Channels(CHANNELS))
    assert len(made.hooks) == 1


def receiver(folder: Path) -> Any:
    """Return the receiver of the page as a module."""
    (text,) = blocks("python")
    (folder / "receiver.py").write_text(text)
    spec = importlib.util.spec_from_file_location("receiver", folder / "receiver.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def test_the_receiver_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The page's receiver answers what we ask, and refuses what is signed with another secret."""
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    server = HTTPServer(("127.0.0.1", 0), receiver(tmp_path).Hook)
    port = server.server_address[1]
    listening = threading.Thread(target=server.serve_forever)
    listening.start()
    fetch = Fetch([f"127.0.0.1:{port}"])
    resolvers = HookResolvers(SystemClock(), fetch, SECRETS)

    async def asked(expression: str, secret: str) -> Any:
        config = {"url": f"http://127.0.0.1:{port}/", "secret": SECRETS.seal(secret, PURPOSE), "on_error": "deny"}
        (named,) = chain([Hook(event="PreToolUse", type="http", config=config)], "PreToolUse")
        fields: dict[str, Any] = {"agent": "a", "session": "s", "run": "r", "channel": "web", "actor": None}
        fields |= {"tool": "calculate", "arguments": {"expression": expression}}
        return await resolvers.ask(named, Occasion(event="PreToolUse", hook=named.name, **fields))

    try:
        assert await asked("6 * 7", SECRET) == Allow()
        assert await asked("6 * 7 + 100000", SECRET) == Deny("Too long for me.")
        assert "401" in (await asked("6 * 7", "another secret of others")).error
    finally:
        await fetch.close()
        server.shutdown()
        listening.join()
        server.server_close()


def test_what_the_page_lists():
    """Every event, type and operator has its row, and the paths of the table are paths."""
    assert [name for name in re.findall(r"(?m)^\| `(\w+)`", PAGE) if name in get_args(HookEvent)] == [
        *get_args(HookEvent)
    ]
    for name in (*get_args(HookType), *get_args(Operator)):
        assert f"\n| `{name}` |" in PAGE
    for field in re.findall(r"(?m)^\| `(/?arguments[^`]*)`", PAGE):
        check_rule("config", _rule(field), "PreToolUse")
    assert path_of("/arguments/a.b/c~1d") == ("arguments", "a.b", "c/d")


def _rule(field: str) -> Any:
    config = {"conditions": [{"field": field, "operator": "EQUALS", "value": "x"}]}
    (named,) = chain([Hook(event="PreToolUse", type="rule", config=config)], "PreToolUse")
    return named.config


def test_the_numbers_of_the_page():
    """Bounds are as the page says."""
    for row in (
        f"(1 to {MAX_CONDITIONS}) must hold",
        f"more than {MAX_VALUES:,}\n  values",
        f"{MIN_SECRET} to {MAX_SECRET} characters",
        f"{MIN_TIMEOUT} to {MAX_TIMEOUT:.0f}",
        f"`{MASK}`",
        "20 steps takes texts up to 10 MB, one of 2,000 up to 100 KB",
    ):
        assert row in PAGE
    assert (_WORK // 20, _WORK // 2000) == (10_000_000, 100_000)
