"""Schemas of strangers as models are shown them: what vendors would refuse is shown otherwise, and checked whole."""

from typing import Any

from agent_core.schemas import checkable, fitted, problems, schema_problem, unsendable
from tests.cases import for_each

ZOD_EMAIL = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"
TEXT = {"type": "string"}


def obj(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **more}


KINDS = {
    "type": "object",
    "oneOf": [
        obj({"kind": {"const": "card"}, "number": TEXT}, required=["kind", "number"], additionalProperties=False),
        obj({"kind": {"const": "cash"}, "till": TEXT}, required=["kind"], additionalProperties=False),
    ],
}
EITHER = obj({"id": TEXT, "name": TEXT, "city": TEXT}, anyOf=[{"required": ["id"]}, {"required": ["name", "city"]}])
DEFS = {"Args": obj({"to": TEXT, "inner": {"$ref": "#/$defs/Args"}}, required=["to"], description="Where to.")}
MERGED = [
    (KINDS, obj({"kind": {"enum": ["card", "cash"]}, "number": TEXT, "till": TEXT}, required=["kind"])),
    (EITHER, obj(EITHER["properties"], description="Required too is one of these: `id`; `name` with `city`.")),
    ({"type": "object", "$ref": "#/$defs/Args", "$defs": DEFS}, {**DEFS["Args"], "$defs": DEFS}),
    (
        obj({"a": TEXT}, allOf=[obj({"b": TEXT}, required=["b"]), {"if": {"required": ["a"]}}], required=["a"]),
        obj({"a": TEXT, "b": TEXT}, required=["a", "b"]),
    ),
    (
        {"type": "object", "anyOf": [obj({"a": TEXT}), obj({"a": {"type": "integer"}}), {"type": "null"}]},
        obj({"a": {"anyOf": [TEXT, {"type": "integer"}]}}),
    ),
    (obj({"a": TEXT}, **{"not": {"required": ["a", "b"]}}), obj({"a": TEXT})),
]


@for_each("given, shown", MERGED)
def test_a_choice_at_the_top_becomes_one_object(given: dict[str, Any], shown: dict[str, Any]):
    """Models are shown one object with the arguments of all choices; the tool's own schema is kept."""
    found = fitted(given)
    assert (found.offered, found.whole) == (shown, given)
    assert unsendable(given) is not None or "$ref" in given
    assert unsendable(shown) is None
    assert schema_problem(shown) is None


def test_what_goes_together_is_checked_by_the_whole():
    """What the shown schema cannot say is refused by the tool's own."""
    found = fitted(KINDS)
    assert not problems(found.offered, {"kind": "card"})
    assert problems(found.whole, {"kind": "card"})
    assert not problems(found.whole, {"kind": "card", "number": "7"})


def test_names_that_vendors_refuse_are_shown_otherwise():
    """Names of arguments have the characters that vendors take, and are the tool's own again at the call."""
    long = "x" * 70
    given = obj(
        {"$filter": {**TEXT, "description": "OData."}, "filter": TEXT, "filter[id]": {}, "ü": {}, long: {}},
        required=["$filter"],
        dependentRequired={"ü": ["$filter"]},
    )
    found = fitted(given)
    assert unsendable(given) is not None
    assert unsendable(found.offered) is None
    names = {"filter_2": "$filter", "filter_id": "filter[id]", "argument": "ü", "x" * 64: long}
    assert (found.names, found.offered["required"], found.whole) == (names, ["filter_2"], given)
    assert found.offered["properties"]["filter_2"]["description"] == "OData. (`$filter`)"
    assert found.restored({"filter_2": "a", "filter": "b", "argument": 1}) == {"$filter": "a", "filter": "b", "ü": 1}


@for_each(
    "given, kept",
    [
        ({**TEXT, "pattern": ZOD_EMAIL, "format": "email"}, {**TEXT, "format": "email"}),
        ({**TEXT, "pattern": "^a"}, {**TEXT, "pattern": "^a"}),
        ({"type": "object", "$id": "#order", "$schema": "x"}, {"type": "object"}),
        ({"$ref": "https://example.com/order.json"}, {}),
        ({"items": [TEXT, {"type": "integer"}]}, {"prefixItems": [TEXT, {"type": "integer"}], "items": {}}),
        ({"items": [TEXT], "additionalItems": False}, {"prefixItems": [TEXT], "items": False}),
        (
            {"patternProperties": {"(?!x)": {}, "^x": {}}, "unevaluatedProperties": False},
            {"patternProperties": {"^x": {}}},
        ),
        ({"const": {"pattern": "^x", "items": [1]}}, {"const": {"pattern": "^x", "items": [1]}}),
    ],
)
def test_what_cannot_be_checked_here_is_left_to_the_tools_owner(given: dict[str, Any], kept: dict[str, Any]):
    """A rule that cannot be checked is no reason to leave a tool out."""
    found = checkable(obj({"a": given, "pattern": TEXT, "items": TEXT}))
    assert found == obj({"a": kept, "pattern": TEXT, "items": TEXT})
    assert schema_problem(found) is None


def test_a_schema_that_is_all_right_stays():
    """Nothing is made of a schema that vendors take, and nothing is without end."""
    plain = obj({"a": TEXT}, required=["a"])
    found = fitted(plain)
    assert found.offered is plain
    assert found.whole is plain
    endless = obj({"a": TEXT}, anyOf=[{"$ref": "#"}] * 4)
    assert fitted(endless).offered == obj({"a": TEXT})
    assert fitted(obj({"a": {"$ref": "#/anyOf/0"}}, anyOf=[obj({"b": {}})])).offered == obj({"a": {}, "b": {}})
