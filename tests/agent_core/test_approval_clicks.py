"""Whose clicks let a call run: every sequence of them, held against a table of who may that is written by hand."""

from contextlib import suppress
from dataclasses import dataclass

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agent_core.errors import AlreadyDecided, NotAnApprover
from agent_core.messages import Actor
from agent_core.objects import Decider, Decision
from agent_core.testing import ScriptedProvider, by_step, call, say
from tests.agent_core.asking import BOB, EVE, OPERATOR, Till, asks, open_approvals
from tests.agent_core.beginning import begin
from tests.agent_core.stage import ANN, Stage
from tests.conftest import Fresh

PAYS = by_step((call("pay", amount=5),), (say("Done."),))
ASKED, CORRECTED = 5, 7
MEMBER = Actor("slack:T1:U7", "user")


@dataclass(frozen=True, slots=True)
class Face:
    """A *person* as a surface shows them; several faces may be of one person."""

    person: str
    surface: str
    by: Decider


FACES = {
    "ann": Face("ann", "web", Decider(actor=ANN, is_present=True)),
    "a page's ann": Face("ann", "web", Decider(actor=Actor("ann", "visitor"), is_present=True)),
    "an ann elsewhere": Face("ann", "api", Decider(actor=Actor("ann", "service"))),
    "bob": Face("bob", "web", Decider(actor=BOB, is_present=True)),
    "bob's program": Face("bob", "api", Decider(actor=Actor("bob", "service"), is_present=True)),
    "bob elsewhere": Face("bob", "api", Decider(actor=Actor("bob", "visitor"))),
    "eve elsewhere": Face("eve", "slack", Decider(actor=EVE)),
    "member": Face("member", "slack", Decider(actor=MEMBER, is_present=True, also=("slack:U7", "slack:S9"))),
    "the member who left the group": Face("member", "slack", Decider(actor=MEMBER, also=("slack:U7",))),
    "operator": Face("operator", "terminal", OPERATOR),
}
HERE = {"ann", "a page's ann", "bob", "bob's program", "member", "operator"}
BOBS = {"bob", "bob's program", "bob elsewhere"}


@dataclass(frozen=True, slots=True)
class Policy:
    """What an agent is given, and the names of those *who* may then decide."""

    responders: tuple[str, ...]
    quorum: int
    who: frozenset[str] | set[str]


NOT_ANN = Policy(("not_asker",), 1, HERE - {"ann", "a page's ann"})
ANN_OR_BOB = Policy(("actor:bob", "asker"), 2, BOBS | {"ann"})
POLICIES = (
    Policy(("asker",), 1, {"ann"}),
    Policy(("operators",), 1, {"operator"}),
    Policy(("operators", "not_asker"), 1, {"operator"}),
    Policy(("actor:ann", "not_asker"), 1, set()),
    NOT_ANN,
    Policy(("slack:S9",), 1, {"member"}),
    Policy(("slack:S8", "asker"), 1, {"ann"}),
    Policy(("asker", "operators"), 2, {"ann", "operator"}),
    Policy(("anyone",), 2, HERE),
    Policy(("anyone",), 3, HERE),
    Policy(("anyone", "not_asker"), 3, HERE - {"ann", "a page's ann"}),
    ANN_OR_BOB,
    Policy(("actor:bob", "not_asker", "slack:U7"), 2, BOBS | {"member", "the member who left the group"}),
    Policy(("actor:ann", "actor:bob"), 2, BOBS | {"ann", "a page's ann", "an ann elsewhere"}),
)


@dataclass(frozen=True, slots=True)
class Click:
    """What a user does with the question."""

    who: str
    approved: bool
    edits: bool
    remembers: bool


def clicks_on(policy: Policy) -> st.SearchStrategy[tuple[Policy, list[Click]]]:
    """Yield clicks of any user, every other one of a user whom *policy* asks, and most of them a yes."""
    click = st.builds(
        Click,
        who=st.sampled_from(sorted(FACES)) | st.sampled_from(sorted(policy.who or FACES)),
        approved=st.integers(0, 3).map(bool),
        edits=st.booleans(),
        remembers=st.booleans(),
    )
    return st.tuples(st.just(policy), st.lists(click, max_size=12))


def paid_after(policy: Policy, clicks: list[Click]) -> list[int]:
    """Return what is to be paid once these clicks are made: the first no, or the last yes needed, ends it."""
    yes: set[str] = set()
    for click in clicks:
        if click.who not in policy.who:
            continue
        if not click.approved:
            return []
        yes.add(FACES[click.who].person)
        if len(yes) == policy.quorum:
            return [CORRECTED if click.edits and policy.quorum == 1 else ASKED]
    return []


@settings(
    max_examples=settings().max_examples // 2,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@example(story=(ANN_OR_BOB, [Click(who, approved=True, edits=False, remembers=False) for who in sorted(BOBS)]))
@example(story=(NOT_ANN, [Click("a page's ann", approved=True, edits=True, remembers=True)]))
@given(story=st.sampled_from(POLICIES).flatmap(clicks_on))
async def test_no_clicks_of_outsiders_cause_an_execution(fresh: Fresh, story: tuple[Policy, list[Click]]) -> None:
    """However people click, a call runs after yeses of enough people whom the policy names, and never else."""
    (policy, clicks), till = story, Till()
    single = policy.quorum == 1
    hook = asks(responders=policy.responders, quorum=policy.quorum, edit=single, remember=True)
    with fresh() as open_database:
        async with begin(open_database(), ScriptedProvider(PAYS), till.tools(), (hook,)) as stage:
            run = await stage.play()
            for click in clicks:
                await _make(stage, click, may_edit=single)
            if await open_approvals(stage) == []:
                await stage.done(run.id)
            assert till.paid == paid_after(policy, clicks)


async def _make(stage: Stage, click: Click, *, may_edit: bool) -> None:
    face = FACES[click.who]
    for asked in await open_approvals(stage):
        vote = Decision(
            approval=asked.id,
            by=face.by,
            approved=click.approved,
            surface=face.surface,
            arguments={"amount": CORRECTED} if click.approved and click.edits and may_edit else None,
            remember=click.approved and click.remembers,
        )
        with suppress(AlreadyDecided, NotAnApprover):
            await stage.core.approvals.decide(vote)
