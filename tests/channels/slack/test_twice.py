"""Whatever Slack delivers twice happens once, whether it has the same event id or another, at once or much later."""

import json
import time
from collections.abc import AsyncIterator

import aiohttp
import pytest
from slack_sdk.signature import SignatureVerifier

from agent_core.providers.base import Request
from agent_core.testing import Answer, pause, say
from channels.slack.serving import PATHS
from channels.slack.settings import Slack
from channels.slack.testing import Notification
from tests.channels.slack.inbound.test_receive import GatedModel
from tests.channels.slack.rig import Rig, rigged, texts


@pytest.fixture
def gate() -> GatedModel:
    return GatedModel()


@pytest.fixture
async def rig(make_core, gate: GatedModel) -> AsyncIterator[Rig]:
    """An agent that thinks about what is slow until the gate is opened."""

    def answer(asked: Request) -> Answer:
        return [*([pause(gate.opened)] if "slow" in texts(asked)[-1] else []), say("Done.")]

    async with rigged(make_core, slack=Slack(default=True), answer=answer) as made:
        yield made
        gate.opened.set()


async def received_again(rig: Rig, deliveries: list[Notification], *, event_id: str | None = None) -> None:
    """Deliver *deliveries* again, with the same event id or with another."""
    async with aiohttp.ClientSession() as http:
        for each in deliveries:
            payload = each.payload if event_id is None else {**each.payload, "event_id": event_id}
            body, stamp = json.dumps(payload), str(int(time.time()))
            secret = SignatureVerifier(rig.stand_in.app.signing_secret)
            signed = secret.generate_signature(timestamp=stamp, body=body)
            headers = {"Content-Type": "application/json", "X-Slack-Request-Timestamp": stamp}
            headers["X-Slack-Signature"] = str(signed)
            async with http.post(rig.url + PATHS[0], data=body, headers=headers) as answer:
                assert answer.status == 200


async def known(rig: Rig) -> list[object]:
    """Return all that is known of all conversations."""
    sessions = sorted((await rig.core.sessions()).items, key=lambda each: each.id)
    runs = sorted((await rig.core.runs(limit=100)).items, key=lambda each: each.id)
    messages = [(await rig.core.messages(each.id)).items for each in sessions]
    states = [(each.id, each.title, each.status) for each in sessions], [(each.id, each.status) for each in runs]
    return [*states, messages, rig.model.calls]


async def test_every_kind_of_event_happens_once(rig: Rig, gate: GatedModel):
    """Messages, edits, deletions, a Stop, new names and what is looked at: delivered again they change nothing."""
    team = rig.team
    root = (await team.mentions("UANN", "CGENERAL", "a slow question")).ts
    await rig.model.asked(1)
    reply = (await team.says("UBEN", "CGENERAL", "wiht a typo", root)).ts
    await team.edits("UBEN", "CGENERAL", reply, "without a typo")
    gone = (await team.says("UBEN", "CGENERAL", "never mind", root)).ts
    await team.deletes("UBEN", "CGENERAL", gone)
    await (await rig.workspaces.space("T0001")).api.set_status("CGENERAL", root, "processing")
    await team.renames("UBEN", "CGENERAL", root, "One name")
    await team.renames("UBEN", "CGENERAL", root, "Another name")
    await team.stops("UANN", "CGENERAL", root)
    await rig.ended("CGENERAL", root)
    await team.says("UANN", "UANN", "A direct message")
    await team.opens_home("UANN")
    await team.looks_at("UANN", {"type": "slack#/types/channel_id", "value": "CDATA", "team_id": "T0001"})
    rig.clock.advance(10)
    await team.says("UANN", "CGENERAL", "slow as well", root)  # a Stop that comes again leaves it alone
    await rig.model.asked(3)
    sent, before = list(rig.stand_in.sent), await known(rig)
    assert {each.type for each in sent} == {
        "agent_session_stopped",
        "agent_session_title_changed",
        "app_context_changed",
        "app_home_opened",
        "app_mention",
        "message",
    }
    for deliveries in (sent, sent[::-1]):
        await received_again(rig, deliveries)
        await received_again(rig, deliveries, event_id="Ev0ANOTHER")
        assert await known(rig) == before
    session = await rig.session("CGENERAL", root)
    assert session is not None
    assert session.title == "Another name"
    gate.opened.set()
    await rig.ended("CGENERAL", root)
    said = await rig.said("CGENERAL", root)
    assert (said[0], said[-1], len(said)) == ("a slow question", "slow as well", 4)
    assert rig.model.calls == 3
