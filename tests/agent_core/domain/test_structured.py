"""Output schemas: which ones can be followed, which the models' APIs hold an answer to, and how an answer is read."""

from typing import Any

from agent_core.schemas import MAX_SCHEMA, is_closed, output_problem, read_answer
from tests.cases import for_each

CLOSED: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "at": {"anyOf": [{"$ref": "#/$defs/place"}, {"type": "null"}]}},
    "required": ["name", "at"],
    "additionalProperties": False,
    "$defs": {"place": {"type": "array", "items": {"enum": ["here", "there"]}}},
}


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"properties": {"a": schema}}
    return schema


@for_each(
    "schema",
    [
        CLOSED,
        {},
        {"type": ["object", "null"]},
        {"properties": {"$ref": {"type": "string"}, "$id": {"type": "string"}}},
        {"$id": "https://example.org/answer", "properties": {"next": {"$ref": "#"}}},
        {"$defs": {"a/b~c": {"type": "string"}}, "properties": {"x": {"$ref": "#/$defs/a~1b~0c"}}},
    ],
)
def test_schemas_that_are_valid_for_answers(schema):
    """Plain schemas, references within one and recursion are welcome."""
    assert output_problem(schema) is None


@for_each(
    "schema, why",
    [
        ({"type": "strin"}, "no JSON Schema"),
        ({"properties": {"a": {"pattern": "("}}}, "no JSON Schema"),
        ({"properties": {"a": {"$ref": "https://example.org/a"}}}, "leads nowhere"),
        ({"$ref": "file:///etc/passwd"}, "leads nowhere"),
        ({"properties": {"a": {"$ref": "#/$defs/gone"}}}, "leads nowhere"),
        ({"properties": {"a": {"$dynamicRef": "#meta"}}}, "leads nowhere"),
        ({"properties": {"a": {"$id": "https://example.org/a", "$ref": "#/b"}}}, "`$id`"),
        ({"$ref": "#"}, "without end"),
        ({"anyOf": [{"$ref": "#"}]}, "without end"),
        (nested(5000), "nested too deeply"),
        ({"description": "x" * MAX_SCHEMA}, "bytes"),
    ],
)
def test_schemas_that_are_invalid_for_answers(schema, why):
    """What is no schema, points elsewhere, never ends or is too large is refused, and nothing is fetched."""
    assert why in (output_problem(schema) or "")


@for_each(
    "text, value, faults",
    [
        ('{"name": "x", "at": ["here"]}', {"name": "x", "at": ["here"]}, 0),
        (' \n{"name": "x", "at": null}\n', {"name": "x", "at": None}, 0),
        ('```json\n{"name": "x", "at": null}\n```', {"name": "x", "at": None}, 0),
        ('Here: {"name": "x", "at": null}', None, 1),
        ('{"name": 1, "at": ["away"]}', {"name": 1, "at": ["away"]}, 2),
        ("", None, 1),
        ("NaN", None, 1),
        ("[" * 100_000, None, 1),
    ],
)
def test_an_answer_is_read_whole(text, value, faults):
    """The whole answer is the value, in a code fence or not; violations of the schema are reported by path."""
    found, problems = read_answer(CLOSED, text)
    assert (found, len(problems)) == (value, faults)


def test_error_names_its_path():
    """What is invalid is reported as a path and a reason."""
    assert read_answer(CLOSED, '{"name": 1, "at": null}')[1] == ["$.name: 1 is not of type 'string'"]


@for_each(
    "schema, closed, whole",
    [
        (CLOSED, True, True),
        ({**CLOSED, "required": ["name"]}, True, False),
        ({**CLOSED, "additionalProperties": True}, False, False),
        ({"type": "object"}, False, False),
        ({"type": ["object", "null"], "properties": {}}, False, False),
        ({"type": "string", "minLength": 3}, False, False),
        ({**CLOSED, "properties": {"name": True, "at": {}}}, False, False),
        ({"type": "array", "items": {"type": "integer"}}, True, True),
    ],
)
def test_closed_schemas_are_recognised(schema, closed, whole):
    """Constrained decoding takes objects that name all they may have, and no bounds; *whole* ones require all of it."""
    assert (is_closed(schema), is_closed(schema, whole=True)) == (closed, whole)
