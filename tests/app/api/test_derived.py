"""Request bodies and answers follow the core's structs."""

from typing import Any, Literal

import msgspec
import pytest
from pydantic import ValidationError

from agent_core.agents import Definition
from agent_core.objects import AgentObject, RunObject
from app.api.requests import AGENT, AnyActor
from app.api.wire import RequestBody, body_of, one_of, wire_of
from tests.cases import for_each


class Tone(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A nested setting."""

    formal: bool = False


class Larger(Definition, frozen=True, kw_only=True):
    """An agent with fields that it does not have today."""

    mood: Literal["calm", "lively"] | None = None
    tone: Tone = Tone()
    aliases: tuple[str, ...] = ()


BASIC = {"name": "a", "instructions": "b"}


def test_a_new_field_of_an_agent_is_one_edit():
    """A field of the definition is taken in requests, checked there, kept by changes and shown in answers."""
    body = body_of(Larger, AGENT)
    given = {**BASIC, "mood": "calm", "tone": {"formal": True}, "aliases": ["x"]}
    made = body.model_validate(given).value()
    assert made == Larger(name="a", instructions="b", mood="calm", tone=Tone(formal=True), aliases=("x",))
    assert body(**BASIC).value() == Larger(name="a", instructions="b")
    changes = body_of(Larger, AGENT, partial=True)
    assert changes.model_validate({"mood": None}).model_dump(exclude_unset=True) == {"mood": None}
    assert wire_of(AgentObject, Larger, without=("definition",)).__struct_fields__[-3:] == ("mood", "tone", "aliases")
    for wrong, place in (({"mood": "odd"}, ("mood",)), ({"tone": {"loud": True}}, ("tone", "loud"))):
        with pytest.raises(ValidationError) as refused:
            body(**BASIC, **wrong)
        assert refused.value.errors()[0]["loc"] == place


def test_times_travel_as_text_and_every_field_is_required():
    """The schema of an answer has each field of the struct as required, and its times as text."""
    schema = msgspec.json.schema(wire_of(RunObject, without=("parts",)))["$defs"]["RunObject"]
    assert schema["properties"]["created_at"] == {"type": "string"}
    assert schema["properties"]["started_at"]["anyOf"] == [{"type": "string"}, {"type": "null"}]
    assert set(schema["required"]) >= {"feedback", "created_at", "started_at"}
    assert "parts" not in schema["properties"]


@for_each("given", [5, True, None, [1]])
def test_a_value_of_no_kind_that_fits_is_one_error(given: Any):
    """A union reports one error, which names the kinds that it takes."""

    class Asked(RequestBody):
        actor: AnyActor
        flag: one_of(bool, list[str]) = False  # type: ignore[valid-type]

    with pytest.raises(ValidationError) as refused:
        Asked.model_validate({"actor": given})
    assert [error["msg"] for error in refused.value.errors()] == ["Input should be a text or an object"]
    assert Asked.model_validate({"actor": {"id": "u1"}, "flag": ["T1"]}).flag == ["T1"]
