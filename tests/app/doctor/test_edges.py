"""What the doctor says of the edges: the demo page, the proxies, the number of clients, and webhooks."""

import resource
from pathlib import Path
from typing import Any

import pytest

from agent_core.agents import Definition, Hook
from agent_core.clock import SystemClock
from app.compose import running_core
from app.doctor import edges
from app.models import running_models
from app.settings import Settings
from app.storage import migrate
from tests.app.doctor.hooks import of_hooks
from tests.cases import for_each

OPEN = "open to this machine alone"
NONE = "none are believed: a caller's address is that of its connection"
NAME_IT = "if one is in front, name it in PARLEY_TRUSTED_PROXIES"
PASSWORD = {"PARLEY_DEMO_PASSWORD": "a long password"}
PROXIES = {"PARLEY_TRUSTED_PROXIES": "10.0.0.0/8"}
DEMO: list[tuple[dict[str, str], str, str, str]] = [
    ({}, "ok", OPEN, "behind a proxy or tunnel set PARLEY_TRUSTED_PROXIES, PARLEY_HOSTS, or PARLEY_DEMO=off"),
    ({"PARLEY_DEMO": "off"}, "ok", "closed, as PARLEY_DEMO is off", ""),
    ({"HOST": "192.0.2.1"}, "ok", "closed, as HOST lets others in", ""),
    (PROXIES, "ok", "closed, as PARLEY_TRUSTED_PROXIES lets others in", ""),
    ({"PARLEY_HOSTS": "a.example"}, "ok", "closed, as PARLEY_HOSTS lets others in", ""),
    ({**PROXIES, **PASSWORD}, "ok", "open to those who know PARLEY_DEMO_PASSWORD", ""),
    (
        {**PROXIES, "PARLEY_DEMO": "on"},
        "fail",
        "open, and PARLEY_TRUSTED_PROXIES lets others in",
        "set PARLEY_DEMO_PASSWORD",
    ),
]
BELIEVED: list[tuple[dict[str, str], str, str, str]] = [
    ({}, "ok", NONE, ""),
    ({"HOST": "192.0.2.1"}, "ok", NONE, NAME_IT),
    (
        {"PARLEY_PUBLIC_URL": "https://a.example"},
        "warn",
        "PARLEY_PUBLIC_URL is set, and no proxy is believed",
        f"{NAME_IT}: else all its callers are one address",
    ),
    (PROXIES, "ok", "10.0.0.0/8 are believed; any host", "PARLEY_HOSTS names those to answer to"),
    ({**PROXIES, "PARLEY_HOSTS": "a.example"}, "ok", "10.0.0.0/8 are believed; answers to a.example", ""),
]


def found(about: str, **given: Any) -> tuple[str, str, str]:
    """Return what is said *about* one thing of a deployment with these settings."""
    settings = Settings(_env_file=None, **given)  # type: ignore[call-arg]
    return next((each.level, each.text, each.remedy) for each in edges(settings) if each.about == about)


@for_each("given, level, text, remedy", DEMO)
def test_readers_of_the_demo_page(given: dict[str, str], level: str, text: str, remedy: str):
    """It is open to this machine alone or with a password; without one, where others come in, that is a failure."""
    assert found("demo", **given) == (level, text, remedy)


@for_each("given, level, text, remedy", BELIEVED)
def test_which_proxies_are_believed(given: dict[str, str], level: str, text: str, remedy: str):
    """Those of the setting are named; where there seems to be one that is not named, that is said with the remedy."""
    assert found("proxies", **given) == (level, text, remedy)


@for_each("files, level", [(resource.RLIM_INFINITY, "ok"), (10_000, "ok"), (1_000, "warn")])
def test_how_many_may_connect(files: int, level: str, monkeypatch: pytest.MonkeyPatch):
    """Fewer open files than connections are warned of, with the limit to raise."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1_000, files))
    said = found("clients", PARLEY_MAX_CONNECTIONS="4096", PARLEY_MAX_CONNECTIONS_PER_ADDRESS="100")
    assert said[0] == level
    assert said[1].startswith("at most 4096 at once, 100 of one address")
    assert said[2] == ("raise `ulimit -Hn`" if level == "warn" else "")


async def test_a_stored_webhook_that_can_never_be_asked_fails(tmp_path: Path):
    """An address that PARLEY_FETCH_ALLOW no longer lets in is named with its agent, beside that it fails open."""
    within: dict[str, Any] = {"_env_file": None, "data": tmp_path, "agents": tmp_path}
    before = Settings(**within, PARLEY_FETCH_ALLOW="10.0.0.7:80")  # type: ignore[call-arg]
    migrate(before)
    config = {"url": "http://10.0.0.7/", "secret": "0123456789abcdef"}
    hook = Hook(event="PreToolUse", type="http", name="guard", config=config)
    wanted = Definition(name="anna", instructions="Hi", tools=("calculate",), hooks=(hook,))
    async with running_models(before, SystemClock()) as models, running_core(before, models) as core:
        await core.agents.create(wanted)
    open_alone = ("warn", "`anna`: guard allows what it cannot be asked about")
    assert [(each.level, each.text) for each in of_hooks(before)] == [open_alone]
    refused, then = of_hooks(Settings(**within))
    assert (refused.level, refused.about) == ("fail", "hooks")
    assert refused.text.startswith("`anna`: `hooks[0].config.url`: ")
    assert (then.level, then.text) == open_alone
