"""What servers ask people: named first, and without hidden characters."""

import mcp_types as wire

from agent_core.mcp.questions import AskedSoFar, read


def test_a_question_names_its_server_first_and_hides_nothing() -> None:
    """The server's name comes before all that it says; texts of its form lose hidden characters."""
    field = {"type": "string", "title": "PIN\u202e", "description": "Your\u200b PIN", "enumNames": ["O\u200bne"]}
    schema = {"type": "object", "properties": {"pin": field}}
    question = read(
        wire.ElicitRequestFormParams(message="Parley security:\u200b " + "x" * 3000, requested_schema=schema)
    )
    assert not isinstance(question, str)
    asked = AskedSoFar(open=question).elicitation("shop")
    assert asked.title.startswith("shop asks: Parley security: xxx")
    shown = {"type": "string", "title": "PIN", "description": "Your PIN", "enumNames": ["One"]}
    assert asked.schema["properties"]["pin"] == shown
    nullable = {"type": "object", "properties": {"pin": {"type": ["string", "null"]}}, "required": ["pin"]}
    asked_for = read(wire.ElicitRequestFormParams(message="Go", requested_schema=nullable))
    assert not isinstance(asked_for, str)
    assert asked_for.schema == {"type": "object", "properties": {"pin": {"type": "string"}}, "required": []}
    for hidden in ({"enum": ["a\u200b"]}, {"oneOf": [{"const": "a\u202e", "title": "A"}]}):
        schema = {"type": "object", "properties": {"pin": {"type": "string", **hidden}}}
        assert "do not see" in str(read(wire.ElicitRequestFormParams(message="Go", requested_schema=schema)))
