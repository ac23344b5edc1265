"""Rules: what their conditions match, how denials resist evasion, and which rules are refused when they are set."""

import asyncio
import threading
from typing import Any, Literal, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from agent_core import schemas
from agent_core.agents import Condition, HookEvent, Operator, RuleConfig
from agent_core.errors import InvalidInput
from agent_core.hooks.chain import Allow, Deny, Occasion
from agent_core.hooks.rules import MAX_VALUES, check_rule, rule
from agent_core.messages import Actor
from tests.cases import for_each
from tests.polling import PATIENCE

ANN = Actor("U1", "user", "Ann")
HOSTILE = "a" * 50_000 + "!"


def about(arguments: dict[str, Any] | None = None, event: HookEvent = "PreToolUse", **more: Any) -> Occasion:
    whole = {"hook": "rule-1", "agent": "assistant", "session": "s", "run": "r", "channel": "slack", "actor": ANN}
    return Occasion(event=event, **{**whole, "tool": "send", "arguments": arguments, **more})


def of(*conditions: tuple[str, str, Any], decision: Literal["allow", "deny"] = "deny", **options: Any) -> RuleConfig:
    made = tuple(Condition(field, cast("Operator", operator), value) for field, operator, value in conditions)
    return RuleConfig(conditions=made, decision=decision, **options)


async def holds(
    operator: str, value: Any, given: Any, decision: Literal["allow", "deny"] = "deny", field: str = "arguments.x"
) -> bool | None:
    """Return whether a condition on `x` holds of *given*; None: it cannot be decided."""
    ruling = await rule(of((field, operator, value), decision=decision), about({"x": given}))
    return None if isinstance(ruling, Deny) and ruling.error else ruling is not None


TABLE: list[tuple[str, Any, Any, bool]] = [
    ("CONTAINS", "evil", "an evil plan", True),
    ("CONTAINS", "evil", "", False),
    ("CONTAINS", "evil", ["good", "evil"], True),
    ("CONTAINS", 5, [4, 5], True),
    ("CONTAINS", 5, [4, 55], False),
    ("STARTS_WITH", "/etc/", "/etc/passwd", True),
    ("STARTS_WITH", "/etc/", " /etc/passwd", False),
    ("MATCHES", "^rm .*-rf", "rm -v -rf /", True),
    ("MATCHES", "^rm .*-rf", "echo rm -rf", False),
    ("MATCHES", "(?i)DROP\\s+TABLE", "drop\ttable users", True),
    ("MATCHES", "^b", "a\nb", False),
    ("MATCHES", "(?m)^b", "a\nb", True),
    ("IN", ["eu", "us"], "us", True),
    ("IN", ["eu", "us"], "u", False),
    ("IN", [1, None], 1.0, True),
    ("EQUALS", "x", "x", True),
    ("EQUALS", "x", "xx", False),
    ("EQUALS", 1, 1.0, True),
    ("EQUALS", True, True, True),
    ("EQUALS", 1, True, False),
    ("EQUALS", None, None, True),
    ("EQUALS", "", "", True),
    ("GREATER_THAN", 100, 101, True),
    ("GREATER_THAN", 100, 100, False),
    ("GREATER_THAN", 0.5, 0.75, True),
    ("GREATER_THAN", 100, -1e300, False),
    ("GREATER_THAN", 100, 10**400, True),
]


@for_each("decision", ["allow", "deny"])
@for_each("operator, value, found, expected", TABLE)
async def test_what_an_operator_says(
    decision: Literal["allow", "deny"], operator: str, value: Any, found: Any, expected: bool
):
    """On a plain value each operator says the same in a rule that denies and in one that allows."""
    assert await holds(operator, value, found, decision) is expected


DODGES: list[tuple[str, Any, Any, bool | None]] = [
    ("CONTAINS", "evil", {"a": {"b": ["so", "evil"]}}, True),
    ("CONTAINS", "evil", {"evil": 1}, True),
    ("CONTAINS", "evil", "ｅｖｉｌ", True),
    ("CONTAINS", "75", 1750, True),
    ("STARTS_WITH", "/etc", ["/var", "/etc/passwd"], True),
    ("STARTS_WITH", "1", 100, True),
    ("MATCHES", "^evil$", ["good", ["evil"]], True),
    ("MATCHES", "^evil$", "ｅｖｉｌ", True),
    ("MATCHES", "[ｅ]", "ｅｖｉｌ", True),
    ("MATCHES", "^true$", True, True),
    ("IN", ["evil.example"], {"host": "evil.example"}, True),
    ("IN", ["5"], 5, True),
    ("EQUALS", "evil", ["evil"], True),
    ("EQUALS", 5, "5", True),
    ("EQUALS", "ﬁne", "fine", True),
    ("GREATER_THAN", 100, "5000", True),
    ("GREATER_THAN", 100, " 5e3 ", True),
    ("GREATER_THAN", 100, "５０００", True),
    ("GREATER_THAN", 100, "5_000", True),
    ("GREATER_THAN", 100, "Infinity", True),
    ("GREATER_THAN", 100, [1, 5000], True),
    ("GREATER_THAN", 100, "99", False),
    ("GREATER_THAN", 100, "$5000", None),
    ("GREATER_THAN", 100, "nan", None),
    ("GREATER_THAN", 100, True, None),
    ("GREATER_THAN", 100, "9" * 1000, None),
    ("GREATER_THAN", 100, {"value": 50}, None),
    ("CONTAINS", "rm -rf", "sudo rm\u200b -rf /", True),
    ("CONTAINS", "rm -rf", "r\u0336m\u0336 -\u0301rf", True),
    ("CONTAINS", "rm -rf", "RM\u00a0-Rf", True),
    ("CONTAINS", "rm -rf", "r\u034fm\ufe0f\u2060 -\u3164rf\x00", True),
    ("CONTAINS", "rm -rf", {"a": [{"\u202erm -rf": 1}]}, True),
    ("CONTAINS", "R\u200bM -RF", "rm -rf", True),
    ("STARTS_WITH", "/etc", "\ufeff/ETC/passwd", True),
    ("EQUALS", "evil", "E\u0301vil", True),
    ("IN", ["straße"], "STRASSE", True),
    ("IN", ["Zoë"], "zoe\u0308", True),
    ("IN", ["Zoë"], "zoe", False),
    ("MATCHES", "^evil$", "e\u200bvil", True),
    ("MATCHES", "^evil$", "EVIL", False),
    ("CONTAINS", "rm -rf", "rm - rf", False),
    ("CONTAINS", "evil", "an Evil plan", True),
]


@for_each("operator, value, found, denied", DODGES)
async def test_what_does_not_dodge_a_rule_that_denies(operator: str, value: Any, found: Any, denied: bool | None):
    """Wrapped, spelled with look-alikes or as another type, a value is denied; and so is what cannot be decided."""
    assert await holds(operator, value, found) is denied


@for_each(
    "operator, value, found, allowed",
    [
        ("IN", ["good"], ["good", "good"], True),
        ("IN", ["good"], ["good", "evil"], False),
        ("IN", ["good"], [], False),
        ("IN", ["good"], {"a": "good"}, False),
        ("IN", ["good"], "ｇｏｏｄ", False),
        ("IN", ["5"], 5, False),
        ("EQUALS", "good", "ｇｏｏｄ", False),
        ("EQUALS", "good", "Good", False),
        ("CONTAINS", "good", "go\u200bod", False),
        ("CONTAINS", "good", "a Good plan", False),
        ("MATCHES", "^good$", "ｇｏｏｄ", False),
        ("MATCHES", "^good$", ["good", "evil"], False),
        ("STARTS_WITH", "/var/", ["/var/a", "/etc"], False),
        ("CONTAINS", "approved", ["urgent", "approved"], True),
        ("CONTAINS", "approved", ["unapproved"], False),
        ("CONTAINS", "approved", {"approved": True}, False),
        ("GREATER_THAN", 10, "11", False),
        ("GREATER_THAN", 10, [11, 12], True),
    ],
)
async def test_what_a_rule_that_allows_wants(operator: str, value: Any, found: Any, allowed: bool):
    """A rule that allows takes nothing for granted: every item, exactly as it is written."""
    assert await holds(operator, value, found, "allow") is allowed


PATHS: list[tuple[str, dict[str, Any], bool]] = [
    ("arguments.a.b", {"a": {"b": "evil"}}, True),
    ("arguments.a.b", {"a": {"c": "evil"}}, False),
    ("arguments.a.b", {"a": "evil"}, False),
    ("arguments.a.1", {"a": ["good", "evil"]}, True),
    ("arguments.a.0", {"a": ["good", "evil"]}, False),
    ("arguments.a.7", {"a": ["evil"]}, False),
    ("arguments.a.0", {"a": {"0": "evil"}}, True),
    ("arguments.a.b", {"a": [{"b": "good"}, {"b": "evil"}]}, True),
    ("arguments.a.b", {"a": [[{"b": "evil"}]]}, True),
    ("arguments.a.b", {"a": []}, False),
    ("/arguments/a.b", {"a.b": "evil"}, True),
    ("/arguments/a~1b/~0", {"a/b": {"~": "evil"}}, True),
    ("/arguments/", {"": "evil"}, True),
    ("arguments", {"deep": [{"in": "evil"}]}, True),
]


@for_each("field, arguments, found", PATHS)
async def test_where_a_field_is(field: str, arguments: dict[str, Any], found: bool):
    """A path names a field of an object, an item of a list, or the field in each item; a pointer any name."""
    check_rule("config", of((field, "EQUALS", "evil")), "PreToolUse")
    assert (await rule(of((field, "EQUALS", "evil")), about(arguments)) is not None) is found


async def test_a_number_may_be_greater_than_any_float():
    """An integer of any size is a number to compare with, and one to be compared."""
    wanted = of(("arguments.a", "GREATER_THAN", 10**400))
    check_rule("config", wanted, "PreToolUse")
    assert await rule(wanted, about({"a": 10**400})) is None
    assert await rule(wanted, about({"a": 10**401})) is not None


async def test_an_allow_wants_the_field_in_every_item():
    """Where one item lacks the field a rule that allows says nothing."""
    wanted = of(("arguments.to.domain", "EQUALS", "good"), decision="allow")
    assert await rule(wanted, about({"to": [{"domain": "good"}, {"domain": "good"}]})) == Allow()
    assert await rule(wanted, about({"to": [{"domain": "good"}, {"address": "evil"}]})) is None


@for_each("operator", ["CONTAINS", "STARTS_WITH", "MATCHES", "EQUALS"])
@for_each("occasion", [about({}), about({"x": None}), about(None), about(None, actor=None)])
async def test_what_is_not_there_meets_no_condition(operator: str, occasion: Occasion):
    """A condition on a field that is absent or null does not hold."""
    for field in ("arguments.x", "arguments.x.y", "text", "result"):
        assert await rule(of((field, operator, "null")), occasion) is None
    assert await rule(of(("arguments.x", "GREATER_THAN", -1)), occasion) is None


async def test_the_fields_beside_the_arguments():
    """A rule may ask who, where, of which tool, and about the words."""
    occasion = about({}, result="secret plan", text="hello")
    for field, value in {
        "actor.id": "U1", "actor.kind": "user", "actor.name": "Ann", "channel": "slack", "tool": "send",
        "result": "secret plan", "text": "hello",
    }.items():  # fmt: skip
        assert await rule(of((field, "EQUALS", value)), occasion) == Deny()
        assert await rule(of((field, "EQUALS", "other")), occasion) is None


async def test_all_conditions_together():
    """Every condition must hold; the reason is the author's."""
    both = of(("tool", "EQUALS", "send"), ("arguments.x", "EQUALS", 1), reason="Not today.")
    assert await rule(both, about({"x": 1})) == Deny("Not today.")
    assert await rule(both, about({"x": 2})) is None


async def test_an_undecidable_condition_denies_with_an_error():
    """A text that is too long for its pattern is denied with an error, unless another condition does not hold."""
    heavy = ("arguments.x", "MATCHES", "((a{1,30}){1,30})b")
    ruling = await rule(of(heavy, reason="No."), about({"x": "a" * 1_000_000}))
    assert isinstance(ruling, Deny)
    assert ruling.reason == "No."
    assert "`arguments.x` with `MATCHES`: it is too long for the pattern: 1000000 bytes" in str(ruling.error)
    assert await rule(of(heavy, ("tool", "EQUALS", "other")), about({"x": "a" * 1_000_000})) is None


async def test_an_undecidable_condition_does_not_allow():
    """A rule that allows says nothing of what it cannot tell, and the operator's log says why."""
    with capture_logs() as logs:
        unsure = of(("arguments.x", "GREATER_THAN", 1), decision="allow")
        assert await rule(unsure, about({"x": "plenty"})) is None
    assert [(line["event"], line["hook"]) for line in logs] == [("hook.unclear", "rule-1")]
    assert "plenty" not in str(logs)


async def test_too_many_values_are_denied():
    """A call that brings more values than are looked at is denied, not let through."""
    assert await holds("EQUALS", "evil", ["good"] * MAX_VALUES) is False
    assert await holds("EQUALS", "evil", ["good"] * MAX_VALUES + ["more"]) is None


@for_each(
    "pattern",
    ["(a+)+$", "(a|aa)+$", "(a*)*b", "([a-z]+)*x", "^(a?){30}a{30}$", "(.*a){25}b", "(?:a|a|a)*c", r"^(\w+\s?)*$"],
)
async def test_no_pattern_takes_long(pattern: str):
    """What makes other engines search for years is answered at once, and rightly."""
    assert await holds("MATCHES", pattern, HOSTILE) is False


async def test_the_event_loop_continues_while_a_pattern_is_searched_for(monkeypatch: pytest.MonkeyPatch):
    """A search is done beside the event loop: what it waits for may come from there."""
    loop, reached = asyncio.get_running_loop(), threading.Event()

    def found(pattern: str, text: str) -> bool:
        loop.call_soon_threadsafe(reached.set)
        return reached.wait(PATIENCE)

    monkeypatch.setattr(schemas, "matches", found)
    assert await holds("MATCHES", "a", "a") is True


CHECKS: list[tuple[Any, str]] = [
    ((), "conditions`: 1 to 20"),
    ((("tool", "EQUALS", "x"),) * 21, "conditions`: 1 to 20"),
    ((("argument.x", "EQUALS", "x"),), "conditions[0].field`: there is no `argument`"),
    ((("", "EQUALS", "x"),), "field"),
    ((("arguments..x", "EQUALS", "x"),), "field`: write it as"),
    ((("arguments." + "x" * 200, "EQUALS", "x"),), "field`: at most 200"),
    ((("actor", "EQUALS", "x"),), "`actor.id`"),
    ((("actor.email", "EQUALS", "x"),), "`actor.id`"),
    ((("channel.name", "EQUALS", "x"),), "`channel` is a text"),
    ((("tool", "EQUALS", "x"), ("tool", "CONTAINS", "")), "conditions[1].value`: `CONTAINS`"),
    ((("tool", "CONTAINS", None),), "value"),
    ((("tool", "CONTAINS", ["x"]),), "value"),
    ((("tool", "STARTS_WITH", 5),), "value"),
    ((("tool", "STARTS_WITH", "x" * 1001),), "value"),
    ((("tool", "EQUALS", {"a": 1}),), "value"),
    ((("tool", "EQUALS", ["a"]),), "value"),
    ((("tool", "IN", "abc"),), "value"),
    ((("tool", "IN", []),), "value"),
    ((("tool", "IN", [["a"]]),), "value"),
    ((("tool", "IN", ["a"] * 1001),), "value"),
    ((("arguments.x", "GREATER_THAN", "5"),), "value"),
    ((("arguments.x", "GREATER_THAN", True),), "value"),
    ((("arguments.x", "GREATER_THAN", float("inf")),), "value"),
    ((("tool", "MATCHES", 5),), "value"),
    ((("tool", "MATCHES", ""),), "1 to 1000"),
    ((("tool", "MATCHES", "("),), "missing ): (); patterns are those of RE2"),
    ((("tool", "MATCHES", "(?=a)b"),), "no look-around"),
    ((("tool", "MATCHES", r"(a)\1"),), "no back-references"),
    ((("tool", "MATCHES", r"(\pL{1,90}){1,9}"),), "too large"),
    ((("tool", "MATCHES", "\ud800"),), "half a character"),
]


@for_each("conditions, message", CHECKS)
def test_what_a_rule_cannot_be(conditions: Any, message: str):
    """What could never be looked at is refused where it is written, with its place."""
    with pytest.raises(InvalidInput) as caught:
        check_rule("hooks[0].config", of(*conditions))
    assert caught.value.path.startswith("hooks[0].config.conditions")
    assert message in str(caught.value)


@for_each(
    "event, field",
    [
        ("PreToolUse", "result"),
        ("PreToolUse", "text"),
        ("OnRunStart", "arguments.x"),
        ("PreResponse", "tool"),
        ("PostToolUse", "text"),
    ],
)
def test_a_field_that_is_not_there_at_the_event(event: HookEvent, field: str):
    """A condition that could never hold at its event is refused, since a rule with it would protect nothing."""
    with pytest.raises(InvalidInput, match=f"at `{event}`"):
        check_rule("config", of((field, "EQUALS", "x")), event)


def test_an_empty_reason():
    """A reason is shown to people: it is not blank."""
    with pytest.raises(InvalidInput, match="reason"):
        check_rule("config", of(("tool", "EQUALS", "x"), reason=" "))


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
json = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3))


@given(value=st.text(min_size=1), wrap=st.lists(st.sampled_from(["list", "object", "first"]), max_size=5), noise=json)
async def test_no_wrapping_hides_a_text(value: str, wrap: list[str], noise: Any):
    """However deep a denied text is wrapped, and whatever lies beside it, a rule that denies finds it."""
    found: Any = value
    for each in wrap:
        found = {"list": [noise, found], "object": {"k": found}, "first": [found, noise]}[each]
    for operator in ("CONTAINS", "STARTS_WITH", "EQUALS"):
        assert await holds(operator, value, found) is True
    assert await holds("IN", [value], found) is True


@given(found=json, value=scalars)
async def test_what_is_allowed_would_have_been_denied(found: Any, value: Any):
    """Whatever fulfils a condition of a rule that allows fulfils it in a rule that denies as well."""
    conditions: list[tuple[str, Any]] = [("EQUALS", value), ("IN", [value])]
    if isinstance(value, str) and value:
        conditions += [("CONTAINS", value), ("STARTS_WITH", value)]
    if isinstance(value, int | float) and not isinstance(value, bool):
        conditions.append(("GREATER_THAN", value))
    for operator, wanted in conditions:
        if await holds(operator, wanted, found, "allow"):
            assert await holds(operator, wanted, found, "deny") is not False


@given(arguments=st.dictionaries(st.text(max_size=5), json, max_size=4), field=st.text(max_size=20))
async def test_every_field_that_passes_the_door_can_be_looked_at(arguments: dict[str, Any], field: str):
    """A field that the door lets in never makes a rule fail, whatever the arguments are."""
    config = of((f"arguments.{field}", "CONTAINS", "a"), (f"/arguments/{field}", "GREATER_THAN", 0))
    try:
        check_rule("config", config, "PreToolUse")
    except InvalidInput:
        return
    assert isinstance(await rule(config, about(arguments)), Deny | None)
