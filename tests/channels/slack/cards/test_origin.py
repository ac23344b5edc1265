"""What a card says of where its question comes from: the words of who asked, and a link to the conversation."""

import pytest

from agent_core.messages import Actor
from agent_core.testing import FakeClock
from channels.slack.cards import WORDS, CardRows, Spot
from channels.slack.testing import InjectedFault, VisibleMessage
from tests.channels.slack.answers import ticking
from tests.channels.slack.cards.desk import LONG, Desk, asking

MONTH = 30 * 24 * 3600

pytestmark = [pytest.mark.sqlite, pytest.mark.whole]
URL = "https://parley.example"


def quote(card: VisibleMessage) -> str | None:
    """Return what the card quotes."""
    parts = [part for block in card.blocks if block["type"] == "rich_text" for part in block["elements"]]
    found = [part["elements"][0]["text"] for part in parts if part["type"] == "rich_text_quote"]
    return found[0] if found else None


def links(card: VisibleMessage) -> list[str]:
    """Return the addresses of the card's links."""
    parts = [part for block in card.blocks if block["type"] == "rich_text" for part in block["elements"]]
    return [each["url"] for part in parts for each in part["elements"] if each["type"] == "link"]


async def elsewhere(desk: Desk) -> VisibleMessage:
    """Return the card in another channel, once it is there."""
    await desk.rig.stand_in.until(lambda: desk.elsewhere("CDATA"), timeout=LONG)
    (card,) = desk.elsewhere("CDATA")
    return card


async def test_a_card_quotes_what_was_asked_while_it_is_open(make_core):
    """The words are whole up to a bound, notify no one, and go with the decision."""
    async with asking(make_core) as desk:
        words = f"Pay Bob, tell <!channel> and <@UBEN>\u202e {'x' * 700}"
        desk.root = (await desk.team.mentions("UANN", "CGENERAL", words)).ts
        await desk.rig.stand_in.until(lambda: len(desk.cards()) == 1, timeout=LONG)
        (card,) = desk.cards()
        said = quote(card) or ""
        assert said.startswith("Pay Bob, tell @channel and @Ben Okoro\\u{202e} xxx")
        assert (len(said), said[-1], card.pings, links(card)) == (WORDS, "…", (), [])
        assert (await desk.press("UANN")).acked
        await desk.settled()
        assert "tell @channel" not in desk.text()


async def test_a_card_elsewhere_links_to_its_thread(make_core):
    """Who is asked in another channel reads what was asked, and a link leads to the thread; the thread has none."""
    async with asking(make_core, deliver_to=["slack:T0001/CDATA"], public_url=URL) as desk:
        await desk.ask()
        card = await elsewhere(desk)
        (link,) = links(card)
        assert link.endswith(f"/archives/CGENERAL/p{desk.root.replace('.', '')}")
        assert quote(card) == quote(desk.cards()[0]) == "Pay Bob"
        assert links(desk.cards()[0]) == []
        assert len(desk.rig.stand_in.called("chat.getPermalink")) == 1


async def test_a_card_of_another_channel_links_to_the_operators_page(make_core):
    """A question of the web is quoted, and its link is that of the operators' page at the public address."""
    async with asking(make_core, deliver_to=["slack:T0001/CDATA"], public_url=f"{URL}/") as desk:
        run = await desk.rig.core.run(await desk.elsewhere_asks())
        card = await elsewhere(desk)
        assert (quote(card), links(card)) == ("Pay Bob", [f"{URL}/operator#/s/{run.session}"])


async def test_without_a_public_address_there_is_no_link(make_core):
    """An operators' page without an address is not linked."""
    async with asking(make_core, deliver_to=["slack:T0001/CDATA"]) as desk:
        await desk.elsewhere_asks()
        assert links(await elsewhere(desk)) == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize("faults", [(), (InjectedFault("server_error", on="chat.update", times=3),)], ids=len)
async def test_a_deleted_question_leaves_the_card(make_core, faults: tuple[InjectedFault, ...]):
    """While the question is open its author deletes what they asked: the card quotes it no more, errors or not."""
    async with asking(make_core, timeout_s=MONTH) as desk, ticking(desk.rig.clock):
        await desk.ask()
        for fault in faults:
            desk.rig.stand_in.fault(fault)
        await desk.says("suspended")
        session = await desk.rig.session("CGENERAL", desk.root)
        assert session is not None
        asked = (await desk.rig.core.messages(session.id)).items[0]
        await desk.rig.core.retract(session.id, asked.id, by=Actor("slack:T0001:UANN", "user"))

        def is_gone() -> bool:
            return len(desk.cards()) == 1 and quote(desk.cards()[0]) is None

        await desk.rig.stand_in.until(is_gone, timeout=LONG)
        assert (await desk.open()).status == "open"


async def test_a_card_that_is_outdated_while_it_is_shown_is_shown_again(make_core):
    """Words deleted while a process shows a card leave it even if that process ends: the row says that it is old."""
    core, clock = await make_core(), FakeClock()
    rows, later = CardRows(core._store.database, clock), CardRows(core._store.database, clock)
    session = (await core.open_session(agent="assistant", actor=Actor("ann", "user"))).id
    await rows.plan("apr_1", session, [Spot("T0001", "CDATA")])
    for outdated, as_shown in ((True, False), (False, True)):
        (known,) = await later.unsettled()
        (card,) = await rows.claim([known.key])
        if outdated:
            await later.outdate({session})
        await rows.leave(card, state="shown", version="v1")
        (known,) = await later.unsettled()
        assert (known.state, known.version == "v1") == ("shown", as_shown)
