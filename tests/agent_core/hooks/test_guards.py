"""Guards that cannot fail in silence: webhooks that could never be asked, that fail open, and that failed."""

from typing import Any

import pytest
from structlog.testing import capture_logs

from agent_core.agents import Definition, Hook, chain
from agent_core.errors import InvalidInput
from agent_core.hooks.chain import Occasion
from agent_core.hooks.rules import QUIET, HookResolvers, check_addresses, fails_open, warn_open
from agent_core.net.fetch import FetchFailed
from agent_core.net.targets import TargetGuard
from agent_core.testing import FakeClock
from tests.cases import for_each

SECRET = "0123456789abcdef"


def webhook(url: str = "https://hooks.example/x", event: Any = "PreToolUse", **config: Any) -> Hook:
    return Hook(event=event, type="http", name="guard", config={"url": url, "secret": SECRET, **config})


@for_each(
    "url",
    [
        "http://127.0.0.1:9000/",
        "http://[::1]:9000/",
        "http://169.254.169.254/latest",
        "http://10.0.0.1/",
        "http://0x7f.1/",
        "http://localhost:8080/",
        "http://a.localhost/",
        "https://hooks.example:22/",
        "ftp://hooks.example/",
    ],
)
def test_a_webhook_that_could_never_be_asked_is_refused(url: str):
    """An address that is private, odd or no web server's is refused by the path of the hook, before any call."""
    with pytest.raises(InvalidInput) as refused:
        check_addresses([webhook(), webhook(url)], TargetGuard.of(()))
    assert refused.value.path == "hooks[1].config.url"


def test_a_webhook_that_the_operator_lets_through_is_kept():
    """What `PARLEY_FETCH_ALLOW` names can be asked, and so can public names."""
    hooks = [webhook("http://127.0.0.1:9000/"), webhook("http://localhost:9000/"), webhook()]
    check_addresses(hooks, TargetGuard.of(("127.0.0.1:9000", "localhost:9000")))


def test_a_webhook_that_fails_open_unsaid_is_warned_of():
    """A hook that decides and has no `on_error` is logged with the remedy; one that says either is not."""
    hooks = (webhook(), webhook(on_error="allow"), webhook(on_error="deny"), webhook(event="OnRunComplete"))
    assert list(fails_open(hooks)) == [0]
    with capture_logs() as logs:
        warn_open(Definition(name="a", instructions="", hooks=hooks))
    assert [(each["event"], each["hook"], each["at"]) for each in logs] == [("hook.fails_open", "guard", "PreToolUse")]
    assert "on_error: deny" in logs[0]["remedy"]


class Sealed:
    """Secrets that are kept as they are."""

    def open(self, sealed: str, purpose: str) -> str:
        return sealed


async def test_failures_of_hooks_are_counted_and_logged_once_a_minute():
    """Each failure is counted by type and event; of one hook the log has the first of a minute."""

    async def down(*_: Any, **__: Any) -> Any:
        raise FetchFailed("It does not answer.")

    clock = FakeClock()
    resolvers = HookResolvers(clock, down, Sealed())
    (named,) = chain((webhook(),), "PreToolUse")
    occasion = Occasion(
        event="PreToolUse", hook="guard", agent="a", session="ses_1", run="run_1", channel="api", actor=None
    )
    with capture_logs() as logs:
        for _ in range(3):
            await resolvers.ask(named, occasion)
        clock.advance(QUIET / 1000)
        await resolvers.ask(named, occasion)
    assert resolvers.errors == {("http", "PreToolUse"): 4}
    assert [(each["event"], each["ruling"]) for each in logs] == [("hook.failed", "allowed, unchecked")] * 2
