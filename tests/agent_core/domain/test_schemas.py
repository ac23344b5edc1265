"""JSON Schemas of tools and answers: which are taken, and how a value misses one."""

from typing import Any

import pytest

from agent_core import schemas
from agent_core.schemas import MAX_DEPTH, MAX_SCHEMA, is_deep, problems, schema_problem, uncheckable
from tests.cases import for_each

TEXT = {"type": "string"}
DOUBLED: dict[str, Any] = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(40)}
ORDER: dict[str, Any] = {
    "type": "object",
    "properties": {"to": TEXT, "count": {"type": "integer", "minimum": 1}, "next": {"$ref": "#"}},
    "required": ["to", "count"],
    "additionalProperties": False,
}


def nested(depth: int, name: str = "a", value: Any = 1) -> Any:
    """Return *value* inside *depth* objects."""
    for _ in range(depth):
        value = {name: value}
    return value


def faults(schema: dict[str, Any], value: Any) -> list[str]:
    return [str(problem) for problem in problems(schema, value, 50)]


def test_every_error_has_its_path():
    """Missing and unknown properties are reported at their own paths, as invalid ones are."""
    assert [problem.path for problem in problems(ORDER, {"to": 1, "odd": 2, "next": {"to": "x", "count": 0}})] == [
        "$.to",
        "$.next.count",
        "$.count",
        "$.odd",
    ]
    assert faults(ORDER, {"to": "x", "count": 1, "next": {"to": "y", "count": 2}}) == []


@for_each(
    "value, fault",
    [
        ({"key": "a", "size": 2}, "$.each[0].size: 2 is not of type 'string'"),
        ({"size": "b"}, "$.each[0].key: it is required."),
        ("", "$.each[0]: '' should be non-empty"),
        (3, "$.each[0]: 3 is not of type string or object"),
    ],
)
def test_one_of_several_forms_is_judged_as_the_form_that_was_meant(value: Any, fault: str):
    """An error in a text or an object is about that one, and an error in anything else names both."""
    form = {"type": "object", "properties": {"key": TEXT, "size": TEXT}, "required": ["key"]}
    each = {"anyOf": [{"type": "string", "minLength": 1}, form]}
    schema = {"type": "object", "properties": {"each": {"type": "array", "items": each, "maxItems": 2}}}
    assert faults(schema, {"each": [value]}) == [fault]
    assert faults(schema, {"each": ["a", {"key": "b"}]}) == []
    assert faults(schema, {"each": ["a"] * 3}) == ["$.each: it has 3 items, at most 2 are allowed."]


def test_number_of_errors_is_limited():
    """Of a value with a thousand faults some are reported, and of a long value a part is shown."""
    assert len(problems({"items": TEXT}, [1] * 1_000)) == 5
    assert len(problems({"items": TEXT}, [1] * 1_000, 20)) == 20
    (fault,) = problems(TEXT, ["x" * 100_000])
    assert len(fault.message) < 400
    assert fault.message.endswith("is not of type 'string'")


@for_each(
    "schema, place",
    [
        ({"properties": {"a": {"$ref": "#/$defs/gone"}}}, "$.properties.a.$ref: `#/$defs/gone` leads nowhere"),
        ({"properties": {"a": {"$ref": "#/required"}}, "required": ["b"]}, "$.properties.a.$ref: `#/required` leads"),
        ({"items": {"$ref": "http://127.0.0.1:1/a"}}, "$.items.$ref: `http://127.0.0.1:1/a` leads nowhere"),
        ({"anyOf": [{"$dynamicRef": "#meta"}]}, "$.anyOf[0].$dynamicRef: `#meta` leads nowhere"),
        ({"$ref": "#"}, "$: it refers to itself without end"),
        ({"allOf": [{"$ref": "#/allOf/0"}]}, "$: it refers to itself without end"),
        ({"items": {"$id": "https://example.org/a"}}, "$.items.$id: "),
        ({"items": {"$schema": "http://json-schema.org/draft-07/schema#"}}, "$.items.$schema: "),
        ({"properties": {"a": {"pattern": "(?=x)"}}}, "$.properties.a.pattern: no pattern"),
        ({"properties": {"a": {"pattern": "x" * 1_001}}}, "$.properties.a.pattern: a pattern has 1 to 1000"),
        ({"properties": {"a": {"pattern": "("}}}, "$.properties.a.pattern: no pattern"),
        ({"patternProperties": {"(": {}}}, "$.patternProperties: no pattern"),
        ({"patternProperties": {"a": {}}, "unevaluatedProperties": False}, "$.unevaluatedProperties: "),
        ({"properties": {"a": {"type": "strin"}}}, "$.properties.a.type: "),
        (nested(MAX_DEPTH, "not", {"not": {}}), "$: nested too deeply"),
        ({"allOf": [{}] * 2_000}, "$: it holds more than 2,000 objects"),
        ({"description": "x" * MAX_SCHEMA}, "$: at most 32,000 bytes"),
    ],
)
def test_invalid_schema_is_reported_with_its_path(schema: dict[str, Any], place: str):
    """What leads elsewhere or nowhere, never ends or could be slow is no schema here; stored ones fit no value."""
    assert str(schema_problem(schema)).startswith(place)
    if not place.startswith(("$.properties.a.type", "$: nested", "$: at most")):
        assert faults(schema, {"a": "b"})[0].startswith("$: it cannot be checked, for its schema: ")


def test_a_schema_whose_checks_double_is_refused_after_so_many(monkeypatch: pytest.MonkeyPatch):
    """What would take 2^40 checks is no schema: it is given up after a bounded number of them."""
    monkeypatch.setattr(schemas, "MAX_CHECKS", 3_000)
    schema = {"$defs": {**DOUBLED, "a40": {}}, "$ref": "#/$defs/a0"}
    assert str(schema_problem(schema)) == "$: it takes more than 3,000 checks."
    assert faults(schema, {"a": "b"})[0].startswith("$: it cannot be checked, for its schema: ")


@for_each(
    "schema",
    [
        ORDER,
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://example.org/a", "items": ORDER},
        {"properties": {"$ref": TEXT, "$id": TEXT, "$schema": TEXT, "pattern": TEXT, "patternProperties": TEXT}},
        {"$defs": {"a/b": {"items": TEXT}}, "items": {"$ref": "#/$defs/a~1b"}, "anyOf": [{"$ref": "#/items"}]},
        {"properties": {"a": {"pattern": "^(a+)+$"}}, "patternProperties": {"": {}, "^x-": TEXT}},
        nested(MAX_DEPTH - 1, "not", {}),
    ],
)
def test_plain_schemas_are_valid(schema: dict[str, Any]):
    """References within it, recursion that a value ends, and names that look like keywords are welcome."""
    assert schema_problem(schema) is None


def test_schema_of_a_tool_is_checked_for_support_only():
    """Of a schema in code only what no value could be checked against is reported, with its path."""
    assert str(uncheckable({"properties": {"a": {"pattern": "(?=x)"}}})).startswith(
        "$.properties.a.pattern: no pattern"
    )
    assert str(uncheckable({"items": {"$ref": "https://example.org/a"}})).startswith("$.items.$ref: ")
    assert uncheckable({"type": "strin", "description": "x" * MAX_SCHEMA}) is None


def test_patterns_are_checked_in_bounded_time():
    """Patterns that backtrack elsewhere take linear time, in names too; `$` matches at the very end only."""
    evil = {"properties": {"a": {"pattern": "^(a+)+$"}}, "patternProperties": {"^(b|b)*$": TEXT}}
    schema = {**evil, "additionalProperties": False}
    assert faults(schema, {"a": "a" * 50_000}) == []
    assert [path.partition(":")[0] for path in faults(schema, {"a": "a" * 50_000 + "!"})] == ["$.a"]
    assert faults(schema, {"b" * 50: "x"}) == []
    assert faults(schema, {"b" * 50 + "!": "x"}) == [f"$['{'b' * 50}!']: there is no such property."]
    assert faults(schema, {"a": "a\n"}) != []
    slow = {"properties": {"a": {"pattern": "(x{1,30}){1,30}"}}}
    assert "too long for the pattern" in faults(slow, {"a": "x" * 1_900_000})[0]


@pytest.mark.whole
def test_values_are_checked_in_bounded_time():
    """What is nested too deeply, is too large for arithmetic or has too many parts is reported, whatever the schema."""
    recursive = {"properties": {"a": {"$ref": "#"}}}
    assert faults(recursive, nested(MAX_DEPTH)) == []
    assert faults(recursive, nested(MAX_DEPTH + 1)) == ["$: nested more than 100 levels deep."]
    assert faults({}, nested(100_000)) == ["$: nested more than 100 levels deep."]
    assert "OverflowError" in faults({"multipleOf": 0.5}, 10**400)[0]
    assert "more than 100,000 checks" in faults({"items": {"allOf": [TEXT] * 500}}, ["x"] * 1_000)[0]
    unique = {"uniqueItems": True}
    assert faults(unique, [{"a": n} for n in range(20_000)]) == []
    assert faults(unique, [{"a": 1, "b": 2}, {"b": 2, "a": 1}]) == ["$: an item is there twice."]


def test_reference_to_a_non_schema_is_an_error():
    """Names of properties read as keywords have values that no keyword has: nothing fits, and nothing breaks."""
    schema = {"properties": {"minimum": {"type": "number"}}, "items": {"$ref": "#/properties"}}
    assert schema_problem(schema) is None
    assert "TypeError" in faults(schema, [5])[0]


def test_depth_is_counted_in_objects_and_lists():
    """A hundred levels are taken, of which an empty one counts as any."""
    for value in (1, [], nested(MAX_DEPTH), nested(MAX_DEPTH - 1, "a", [])):
        assert not is_deep(value)
    for value in (nested(MAX_DEPTH + 1), nested(MAX_DEPTH, "a", []), [nested(MAX_DEPTH, "a", 1)]):
        assert is_deep(value)
