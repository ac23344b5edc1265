"""Request bodies are bounded: each text, list, object and number that a client may send has a most."""

from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from fastapi import FastAPI

from agent_core.agents import Definition
from app.api import requests  # noqa: F401 - its bodies are found once they are defined
from app.api.guard import Entrances
from app.api.requests import AGENT
from app.api.routes import agents  # noqa: F401 - their bodies are found once they are defined
from app.api.wire import RequestBody, body_of

_JSON = "any JSON: the size of the request bounds it"
UNBOUNDED = {
    "AgentBody.channels.*": "the settings of a channel are checked by the channel, against a struct of its own",
    "AgentChanges.channels.*": "as above",
    "AgentFieldsBody.channels.*": "as above",
    "ControlsBody.output_schema": "a JSON Schema: its size and depth are checked with it",
    "DefaultsBody.output_schema": "as above",
    "ControlsBody.tool_context": _JSON,
    "OutputsBody.tool_context": _JSON,
    "DeclaredToolBody.parameters": "a JSON Schema: its size and depth are checked with it",
    "ToolBody.parameters": "as above",
    "HookBody.config": "the type of the hook has a struct for it, whose fields are checked",
    "DecisionBody.arguments": "arguments of a call: the tool's schema checks them",
    "OutputBody.output": _JSON,
    "PreviewBody.payload": "a table or a chart, which is checked as a tool's; the request has a size of its own",
    **{
        f"{body}.{field}": "its size as JSON is checked, and a schema's depth with it"
        for body in ("NewToolBody", "ToolChanges", "ToolDefinitionBody")
        for field in ("parameters", "preset", "config", "tests")
    },
    **{
        f"ToolExampleBody.{field}": "the size of all examples as JSON is checked"
        for field in ("arguments", "tool_context", "contains", "contains[]")
    },
    "ToolOutputBody.input": "arguments of a call: the tool's schema checks them",
    "DryRunBody.arguments": "arguments of a call: the tool's schema checks them",
    "DryRunBody.tool_context": "its size as JSON is checked",
    "SessionBody.metadata": "its size as JSON is checked",
}
"""Fields without a bound of their own, as `RequestBody.field`, and what bounds them instead."""


def all_of(base: type[RequestBody]) -> Iterator[type[RequestBody]]:
    for each in base.__subclasses__():
        yield each
        yield from all_of(each)


def without_bound(body: type[RequestBody]) -> list[str]:
    """Return the places in the schema of *body* that take values of any size."""
    schema = body.model_json_schema()
    found: list[str] = []

    def look(given: Any, at: str) -> None:
        if not isinstance(given, dict) or {"enum", "const", "$ref"} & given.keys():
            return
        for branch in (*given.get("anyOf", ()), *given.get("oneOf", ())):
            look(branch, at)
        most = {"string": "maxLength", "array": "maxItems", "integer": "maximum", "number": "maximum"}
        kind = given.get("type")
        if kind in most and most[kind] not in given and "pattern" not in given:
            found.append(at)
        if kind == "object" and given.get("additionalProperties") and "maxProperties" not in given:
            found.append(at)
        if not given.keys() - {"title", "default", "description"}:
            found.append(at)
        look(given.get("items"), f"{at}[]")
        look(given.get("additionalProperties"), f"{at}.*")

    for name, each in {body.__name__: schema, **schema.get("$defs", {})}.items():
        for field, value in each.get("properties", {}).items():
            look(value, f"{name}.{field}")
    return found


def test_every_field_of_a_request_has_a_bound():
    """No field of a request body takes a value of any size, but for those that are listed with what bounds them."""
    found = {place for body in all_of(RequestBody) for place in without_bound(body)}
    assert found == UNBOUNDED.keys()


def test_the_longest_text_of_a_body_fits_into_it(app: FastAPI):
    """No route refuses for its bytes what a field of its body may hold."""
    models = [(each.path, each.most, each.model) for each in Entrances(app.routes)._all if each.model is not None]
    short = [path for path, most, model in models if max(lengths(model.model_json_schema())) > most]
    assert (short, len(models) > 20) == ([], True)


def lengths(schema: Any) -> Iterator[int]:
    """Give how long each text in *schema* may be, and 0."""
    yield schema["maxLength"] if isinstance(schema, dict) and isinstance(schema.get("maxLength"), int) else 0
    for each in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from lengths(each)


def test_a_new_field_of_an_agent_needs_a_bound():
    """A field that the core gets and that HTTP takes as it is defined is found, on its own or in a nested struct."""

    class Nested(msgspec.Struct, frozen=True):
        steps: int = 0

    class Grown(Definition, frozen=True, kw_only=True):
        nick: str = ""
        aliases: tuple[str, ...] = ()
        nested: Nested = Nested()
        mood: Literal["calm", "lively"] = "calm"

    wanted = {"GrownBody.nick", "GrownBody.aliases", "GrownBody.aliases[]", "NestedBody.steps"}
    assert set(without_bound(body_of(Grown, AGENT))) >= wanted
    assert not any("mood" in place for place in without_bound(body_of(Grown, AGENT)))
