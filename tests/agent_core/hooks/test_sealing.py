"""An agent's webhooks from the door to the wire: sealed where they are kept, masked where they are shown."""

import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from agent_core.agents import Definition, Hook
from agent_core.clock import SystemClock
from agent_core.core import Core
from agent_core.errors import InvalidInput
from agent_core.events import HookRuled, ToolCompleted, ToolStarted
from agent_core.hooks.http import MASK, sign
from agent_core.hooks.rules import HookResolvers
from agent_core.net.fetch import Fetch
from agent_core.store.catalog import VERSION
from agent_core.testing import by_step, call, say
from tests.agent_core.asking import Till
from tests.agent_core.net.stage import Site, ok, serving
from tests.agent_core.stage import set_stage
from tests.conftest import SECRETS, MakeCore

SECRET, OTHER = "whsec-0123456789abcdef", "whsec-fedcba9876543210"
URL = "https://rules.example/"


def webhook(url: str = URL, secret: str = SECRET, **options: Any) -> Hook:
    return Hook(**{"event": "PreToolUse", "type": "http", "config": {"url": url, "secret": secret}, **options})


def agent(*hooks: Hook, name: str = "anna") -> Definition:
    return Definition(name=name, instructions="Be brief.", hooks=hooks)


def built(*hooks: Hook) -> Any:
    """Return *hooks* as a body of the API has them."""
    return msgspec.to_builtins(hooks)


async def kept(core: Core) -> str:
    """Return all that the database keeps of agents' definitions."""
    rows = await core._store.read(lambda connection: connection.execute(VERSION.select()).all())
    return b"\n".join(bytes(row.definition) for row in rows).decode()


async def secrets_of(core: Core, name: str = "anna") -> list[str]:
    """Return the secrets of an agent as a webhook would open them."""
    hooks = (await core.agents.find(name)).object.definition.hooks
    return [SECRETS.open(hook.config["secret"], "hook") for hook in hooks]


@pytest.fixture
async def core(make_core: MakeCore) -> Core:
    return await make_core()


async def test_a_secret_is_kept_sealed_and_shown_masked(core: Core):
    """No answer of the core holds a webhook's secret, nor does the database; the webhook can open it."""
    made = await core.agents.create(agent(webhook()))
    changed = await core.agents.update("anna", {"instructions": "Be kind."})
    shown = [made, changed, await core.agents.get("anna"), *(await core.agents.list()).items, *await core.agents.all()]
    assert SECRET not in str(shown)
    assert SECRET not in await kept(core)
    assert {hook.config["secret"] for each in shown for hook in each.definition.hooks} == {MASK}
    assert await secrets_of(core) == [SECRET]


async def test_a_mask_that_is_sent_back_keeps_the_secret(core: Core):
    """Reading an agent and sending it back changes nothing; changing its webhook's order keeps the secret."""
    made = await core.agents.create(agent(webhook(), webhook("https://other.example/", OTHER, event="PreResponse")))
    same = await core.agents.update("anna", {"hooks": built(*made.definition.hooks)})
    assert same.version == made.version
    turned = [msgspec.structs.replace(hook, order=n) for n, hook in enumerate(reversed(made.definition.hooks))]
    assert (await core.agents.update("anna", {"hooks": built(*turned)})).version == made.version + 1
    assert await secrets_of(core) == [OTHER, SECRET]


async def test_a_new_secret_takes_the_place_of_the_old(core: Core):
    """A secret that is given is the new one; the same one again is no change."""
    made = await core.agents.create(agent(webhook()))
    assert (await core.agents.update("anna", {"hooks": built(webhook())})).version == made.version
    assert (await core.agents.update("anna", {"hooks": built(webhook(secret=OTHER))})).version == made.version + 1
    assert await secrets_of(core) == [OTHER]


async def test_a_secret_stays_with_its_url(core: Core):
    """A hook with a new URL is refused unless its secret is given too: signatures never go to another URL."""
    made = await core.agents.create(agent(webhook()))
    for hooks in ([webhook("https://evil.example/", MASK)], [webhook(secret=MASK), webhook(URL + "x", MASK)]):
        with pytest.raises(InvalidInput, match=r"hooks\[.\]\.config\.secret.*there is none; give it"):
            await core.agents.update("anna", {"hooks": built(*hooks)})
    assert await core.agents.get("anna") == made


async def test_a_secret_has_a_longest(core: Core):
    """One that is too long is refused at its field; the longest is kept, though sealing makes it longer."""
    await core.agents.create(agent(webhook(secret="x" * 512)))
    await core.agents.update("anna", {"hooks": built(webhook(secret=MASK, order=3))})
    assert await secrets_of(core) == ["x" * 512]
    for changing in (
        core.agents.update("anna", {"hooks": built(webhook(secret="y" * 513))}),
        core.agents.create(agent(webhook(secret="y" * 513), name="bert")),
        core.agents.sync_files([agent(webhook(secret="y" * 513), name="file")]),
    ):
        with pytest.raises(InvalidInput, match=r"`hooks\[0\]\.config\.secret`: 16 to 512 characters"):
            await changing


async def test_a_mask_without_a_secret(core: Core):
    """A new agent, or one that takes its hooks from another, has to be given the secret."""
    await core.agents.create(agent(webhook()))
    with pytest.raises(InvalidInput, match="there is none"):
        await core.agents.create(agent(webhook(secret=MASK), name="bert"))


async def test_a_mask_that_could_be_several(core: Core):
    """Of two secrets for one URL the one of the same event and name is meant; where neither is, it is asked for."""
    await core.agents.create(agent(webhook(name="a"), webhook(secret=OTHER, name="b")))
    await core.agents.update("anna", {"hooks": built(webhook(secret=MASK, name="b"), webhook(secret=MASK, name="a"))})
    assert await secrets_of(core) == [OTHER, SECRET]
    with pytest.raises(InvalidInput, match="there are several"):
        await core.agents.update("anna", {"hooks": built(webhook(secret=MASK, name="c"))})


async def test_an_unchanged_file_makes_no_version(core: Core):
    """Agents of files with webhooks stay at their version from start to start, until a secret changes."""
    for wanted, version in ((SECRET, 1), (SECRET, 1), (OTHER, 2)):
        await core.agents.sync_files([agent(webhook(secret=wanted))])
        assert (await core.agents.get("anna")).version == version
    stored = await kept(core)
    assert (SECRET in stored, OTHER in stored) == (False, False)


async def test_hooks_are_checked_at_the_door(core: Core):
    """A hook that could not be asked is refused on every way to store an agent; the error shows no secret."""
    rule = {"conditions": [{"field": "result", "operator": "EQUALS", "value": "x"}]}
    unknown = webhook(config={"url": URL, "secret": SECRET, "retries": 3})
    for bad in (webhook("ftp://x/"), Hook(event="PreToolUse", type="rule", config=rule), unknown):
        for attempt in (
            core.agents.create(agent(bad)),
            core.agents.update("assistant", {"hooks": built(bad)}),
            core.agents.sync_files([agent(bad)]),
        ):
            with pytest.raises(InvalidInput, match=r"hooks\[0\]") as caught:
                await attempt
            assert SECRET not in str(caught.value)


async def test_a_core_without_a_key(make_core: MakeCore):
    """A core that cannot seal refuses a webhook rather than keep its secret in the open; rules need no key."""
    core = await make_core(secrets=None)
    with pytest.raises(InvalidInput, match="`secrets`"):
        await core.agents.create(agent(webhook()))
    rule = {"conditions": [{"field": "tool", "operator": "EQUALS", "value": "x"}]}
    await core.agents.create(agent(Hook(event="PreToolUse", type="rule", config=rule)))


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with serving() as site:
        yield site


PAYS = by_step((say("Paying."), call("pay", amount=5)), (say("Done."),))


async def test_a_webhook_rules_a_call(make_core: MakeCore, site: Site):
    """From an agent's definition to the log: asked with its signature, obeyed, and its secret in no fact or line."""
    site.answers["/pay"] = ok(json.dumps({"decision": "deny", "reason": "Ask Bob."}).encode())
    fetch = Fetch([f"127.0.0.1:{site.port}"])
    till, hook = Till(), webhook(site.url("/pay", "127.0.0.1"), matcher="pay")
    resolvers = HookResolvers(SystemClock(), fetch, SECRETS)
    with capture_logs() as logs:
        stage = await set_stage(make_core, PAYS, tools=till.tools(), hooks=[hook], resolvers=resolvers)
        await stage.play()
    (request,) = site.requests
    stamp = int(request.headers["x-parley-timestamp"])
    assert request.headers["x-parley-signature"] == sign(SECRET, stamp, request.body)
    assert json.loads(request.body)["arguments"] == {"amount": 5}
    (ruled,), (ended,) = await stage.said(HookRuled), await stage.said(ToolCompleted)
    assert (ruled.hook, ruled.ruling, ruled.reason, ruled.error) == ("http-1", "deny", "Ask Bob.", None)
    assert (ended.outcome, till.paid, await stage.said(ToolStarted)) == ("denied", [], [])
    assert SECRET not in str(await stage.log()) + str(logs)
    await fetch.close()


async def test_a_rule_rules_a_call(make_core: MakeCore):
    """A rule lets through what its conditions do not name, and denies the rest with its words."""
    over = {"field": "arguments.amount", "operator": "GREATER_THAN", "value": 4}
    config = {"conditions": [over], "reason": "At most 4."}
    till = Till()
    script = by_step((call("pay", amount=5),), (call("pay", amount=4),), (say("Done."),))
    rule = Hook(event="PreToolUse", type="rule", matcher="p*", config=config)
    stage = await set_stage(make_core, script, tools=till.tools(), hooks=[rule])
    assert (await stage.play()).text == "Done."
    assert till.paid == [4]
    first, _ = await stage.said(HookRuled)
    assert (first.hook, first.ruling, first.reason) == ("rule-1", "deny", "At most 4.")
