"""Who a token names."""

import jwt

from agent_core.messages import Actor
from channels.web.identity import SCOPES, Principal, TokenSigner
from tests.cases import for_each

ADA = Actor(id="ada", kind="visitor", name="Ada")


def derive(purpose: str) -> bytes:
    return purpose.encode().ljust(32, b".")


class Clock:
    """Seconds that a test moves."""

    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def test_a_visitors_token_names_actor_and_agent():
    """What goes in comes out, with the expiry."""
    tokens = TokenSigner(derive, now=Clock())
    token = tokens.visitor(ADA, agent="agent_1")
    assert tokens.read(token.text) == Principal("visitor", ADA, "agent_1")
    assert token.expires == 1_000_900


def test_an_operators_token_names_no_agent():
    """A command's token opens what the API key opens."""
    tokens = TokenSigner(derive, now=Clock())
    found = tokens.read(tokens.operator().text)
    assert found
    assert (found.role, found.agent, found.visitor) == ("operator", None, False)


def test_an_operators_token_has_the_scopes_that_it_was_given():
    """A command's token has all of them, another one those that it was signed with, and a visitor's none."""
    tokens = TokenSigner(derive, now=Clock())
    for token, scopes in (
        (tokens.operator(), SCOPES),
        (tokens.operator(scopes=("approvals:as",)), {"approvals:as"}),
        (tokens.operator(scopes=()), frozenset()),
        (tokens.visitor(ADA, agent="agent_1"), frozenset()),
    ):
        found = tokens.read(token.text)
        assert found
        assert found.scopes == scopes
    claims = {"sub": "ada", "aud": "visitor", "agent": "agent_1", "exp": 2_000_000, "scope": "approvals:as"}
    found = tokens.read(jwt.encode(claims, derive("visitor-token"), algorithm="HS256"))
    assert found
    assert (found.role, found.scopes) == ("visitor", frozenset())


def test_a_token_ends():
    """From its last second on a token names no one."""
    clock = Clock()
    tokens = TokenSigner(derive, now=clock)
    token = tokens.visitor(ADA, agent="agent_1", seconds=60)
    clock.now += 59
    assert tokens.read(token.text)
    clock.now += 1
    assert tokens.read(token.text) is None


def test_kinds_of_tokens_do_not_mix():
    """A cookie is no token, a token no cookie, and no key signs for another audience."""
    tokens = TokenSigner(derive, now=Clock())
    assert tokens.read(tokens.cookie("ada").text) is None
    assert tokens.read_cookie(tokens.visitor(ADA, agent="a").text) is None
    found = tokens.read_cookie(tokens.cookie("ada").text)
    assert found
    assert (found.actor.id, found.agent) == ("ada", None)
    claims = {"sub": "eve", "aud": "operator", "exp": 2_000_000}
    assert tokens.read(jwt.encode(claims, derive("visitor-token"), algorithm="HS256")) is None


@for_each("text", ["", "x", "a.b.c", "é", "x" * 10_000])
def test_anything_else_is_refused(text):
    """What is no token is refused without a word."""
    tokens = TokenSigner(derive)
    assert tokens.read(text) is None
    assert tokens.read_cookie(text) is None


def test_unsigned_and_unbounded_tokens_are_refused():
    """No signature, another algorithm, no end: refused."""
    tokens = TokenSigner(derive, now=Clock())
    claims = {"sub": "eve", "aud": "visitor", "agent": "a", "exp": 2_000_000}
    assert tokens.read(jwt.encode(claims, "", algorithm="none")) is None
    assert tokens.read(jwt.encode(claims, derive("visitor-token").ljust(64, b"."), algorithm="HS512")) is None
    del claims["exp"]
    assert tokens.read(jwt.encode(claims, derive("visitor-token"), algorithm="HS256")) is None
