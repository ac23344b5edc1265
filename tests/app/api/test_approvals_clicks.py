"""Whose requests let a call run: every sequence of them, with real tokens, against a table written by hand."""

from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agent_core.agents import Definition
from agent_core.messages import Actor
from tests.agent_core.asking import asks
from tests.app.api.shop import Open, Shop, asked, open_one
from tests.polling import PATIENCE


@dataclass(frozen=True, slots=True)
class ApiCaller:
    """A *person* who calls with a *key*, and may say who they are by the body's *actor*."""

    person: str
    key: str
    actor: Any = None


FACES = {
    "operator": ApiCaller("operator", "all scopes"),
    "operator who only approves": ApiCaller("operator", "approve alone"),
    "operator by name": ApiCaller("operator", "all scopes", {"id": "operator", "kind": "service"}),
    "operator who may not approve": ApiCaller("operator", "reads"),
    "ada": ApiCaller("ada", "ada"),
    "ada by her name": ApiCaller("ada", "ada", "ada"),
    "ada by bob's name": ApiCaller("ada", "ada", "bob"),
    "ada of another agent": ApiCaller("ada", "ada of another agent"),
    "ada by a channel": ApiCaller("ada", "all scopes", "ada"),
    "ada's program by a channel": ApiCaller("ada", "all scopes", {"id": "ada", "kind": "service"}),
    "ada without a scope": ApiCaller("ada", "approve alone", "ada"),
    "bob": ApiCaller("bob", "bob"),
    "bob by a channel": ApiCaller("bob", "all scopes", "bob"),
    "bob as a visitor": ApiCaller("bob", "all scopes", {"id": "bob", "kind": "visitor"}),
    "bob's program": ApiCaller("bob", "all scopes", {"id": "bob", "kind": "service", "name": "Bob's"}),
    "bob's agent": ApiCaller("bob", "all scopes", {"id": "bob", "kind": "agent"}),
    "bob without a scope": ApiCaller("bob", "approve alone", "bob"),
    "eve by a channel": ApiCaller("eve", "all scopes", "eve"),
}
OPERATORS = {"operator", "operator who only approves"}
ADA = {"ada", "ada by her name", "ada by a channel"}
BOB = {"bob by a channel", "bob as a visitor", "bob's program", "bob's agent"}
OTHERS = OPERATORS | BOB | {"eve by a channel"}


@dataclass(frozen=True, slots=True)
class ApiPolicy:
    """What an agent is given, and the names of those *who* may then decide."""

    responders: tuple[str, ...]
    quorum: int
    who: frozenset[str] | set[str]


ADA_OR_BOB = ApiPolicy(("actor:bob", "asker"), 2, BOB | ADA)
POLICIES = (
    ApiPolicy(("asker",), 1, ADA),
    ApiPolicy(("operators",), 1, OPERATORS),
    ApiPolicy(("operators", "not_asker"), 1, OPERATORS),
    ApiPolicy(("actor:bob",), 1, BOB),
    ApiPolicy(("actor:ada", "not_asker"), 1, set()),
    ApiPolicy(("slack:U7",), 1, set()),
    ApiPolicy(("asker", "operators"), 2, ADA | OPERATORS),
    ApiPolicy(("anyone",), 3, ADA | OTHERS | {"ada's program by a channel"}),
    ApiPolicy(("not_asker",), 2, OTHERS),
    ADA_OR_BOB,
    ApiPolicy(("actor:bob", "operators", "not_asker"), 2, BOB | OPERATORS),
)


def clicks_on(policy: ApiPolicy) -> st.SearchStrategy[tuple[ApiPolicy, list[tuple[str, bool]]]]:
    """Give requests of any caller, every other one of a person whom *policy* asks, and most of them a yes."""
    who = st.sampled_from(sorted(FACES)) | st.sampled_from(sorted(policy.who or FACES))
    return st.tuples(st.just(policy), st.lists(st.tuples(who, st.integers(0, 4).map(bool)), max_size=8))


class Counter:
    """A shop with an agent for each policy, and those who come to it."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self._callers: dict[tuple[str, str], httpx.AsyncClient] = {}

    async def agent(self, policy: ApiPolicy) -> str:
        """Return the id of the agent that asks as *policy* says."""
        name = f"asks_{POLICIES.index(policy)}"
        known = {agent.definition.name: agent.id for agent in (await self.shop.core.agents.list(limit=100)).items}
        if name in known:
            return known[name]
        hook = asks(responders=policy.responders, quorum=policy.quorum)
        made = await self.shop.core.agents.create(Definition(name=name, instructions="", tools=("pay",), hooks=(hook,)))
        return made.id

    async def caller(self, key: str, agent: str) -> httpx.AsyncClient:
        """Return who calls with *key*; a visitor's is good for *agent*."""
        if (key, agent) not in self._callers:
            self._callers[key, agent] = await self.shop.caller(self._token(key, agent))
        return self._callers[key, agent]

    def _token(self, key: str, agent: str) -> str:
        tokens = self.shop.tokens
        match key:
            case "all scopes":
                return tokens.operator().text
            case "approve alone":
                return tokens.operator(scopes=("approve",)).text
            case "reads":
                return tokens.operator(scopes=("read", "run", "admin", "approvals:as")).text
            case "ada of another agent":
                return tokens.visitor(Actor("ada", "visitor"), agent=self.shop.agent).text
            case name:
                return tokens.visitor(Actor(name, "visitor"), agent=agent).text


@pytest.fixture
async def counter(shop: Open) -> Counter:
    """A shop that is kept for all examples."""
    return Counter(await shop())


def is_paid(policy: ApiPolicy, clicks: list[tuple[str, bool]]) -> bool:
    """Return whether these clicks let the call run: the first no, or the last yes needed, ends it."""
    yes: set[str] = set()
    for who, approved in clicks:
        if who in policy.who and not approved:
            return False
        if who in policy.who:
            yes.add(FACES[who].person)
        if len(yes) == policy.quorum:
            return True
    return False


@pytest.mark.whole
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@example(story=(ADA_OR_BOB, [(who, True) for who in sorted(BOB)]))
@given(story=st.sampled_from(POLICIES).flatmap(clicks_on))
async def test_no_requests_of_outsiders_cause_an_execution(
    counter: Counter, story: tuple[ApiPolicy, list[tuple[str, bool]]]
) -> None:
    """Any caller, with any key and in any name, lets a call run only as the policy says."""
    policy, clicks = story
    agent, before = await counter.agent(policy), len(counter.shop.till.paid)
    session, run = await asked(await counter.caller("ada", agent))
    operator = counter.shop.operator
    path = f"/v1/approvals/{(await open_one(operator, session=session.rpartition('/')[2]))['id']}"
    for who, approved in clicks:
        face = FACES[who]
        body = {"approved": approved} | ({} if face.actor is None else {"actor": face.actor})
        answer = await (await counter.caller(face.key, agent)).post(path, json=body)
        assert answer.status_code in ({200, 409} if who in policy.who else {403, 404, 409}), (who, answer.text)
    if (await operator.get(path)).json()["status"] != "open":
        await counter.shop.core.settled(run.rpartition("/")[2], timeout=PATIENCE)
    assert len(counter.shop.till.paid) - before == int(is_paid(policy, clicks))
