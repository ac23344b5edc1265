"""A definition that cannot work is refused when it is saved, with the path of the field."""

from typing import Any

import pytest

from agent_core.errors import InvalidInput
from tests.agent_core.tools.http.calling import Calling
from tests.cases import for_each

ID = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
A_AND_B = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
OPTIONAL = {"type": "object", "properties": {"id": {"type": "string"}, "note": {"type": "string"}}}
OAUTH = {"token_url": "https://auth.example.com/t", "client_id": "c", "client_secret": "{{secret:S}}"}


@for_each(
    "fields, path",
    [
        ({"method": "TRACE"}, "config.method"),
        ({"headers": {"a": 1}}, "config.headers[...]"),
        ({"colour": "red"}, "config.colour"),
        ({"url": "ftp://files.example.com/x"}, "config.url"),
        ({"url": "https://{host}.example.com/x"}, "config.url"),
        ({"url": "https://{{secret:HOST}}/x"}, "config.url"),
        ({"url": "https://api.example.com{path}"}, "config.url"),
        ({"url": "{base}/x"}, "config.url"),
        ({"url": "https://ann:pw@api.example.com/x"}, "config.url"),
        ({"url": "https://api.example.com/a b"}, "config.url"),
        ({"url": "https://api.example.com/x#part"}, "config.url"),
        ({"url": "https://api.example.com/a/../b"}, "config.url"),
        ({"url": "https://api.example.com/{id"}, "config.url"),
        ({"url": "https://api.example.com/x?id={id}", "parameters": ID}, "config.url"),
        ({"url": "http://127.0.0.1:1/x"}, "config.url"),
        ({"url": "http://localhost:1/x"}, "config.url"),
        ({"url": "http://169.254.169.254/latest"}, "config.url"),
        ({"url": "https://api.example.com/{other}", "parameters": ID}, "config.url"),
        ({"url": "https://api.example.com/{id}", "parameters": OPTIONAL}, "parameters.required"),
        (
            {"url": "https://api.example.com/{id}", "parameters": {**ID, "properties": {"id": {"type": "object"}}}},
            "parameters.properties.id",
        ),
        ({"url": "https://api.example.com/{id}", "parameters": {}, "preset": {"id": ""}}, "preset.id"),
        ({"headers": {"Host": "x"}}, "config.headers.Host"),
        ({"headers": {"X-Ä": "x"}}, "config.headers.X-Ä"),
        ({"headers": {"X-A": "a\r\nX-B: b"}}, "config.headers.X-A"),
        ({"headers": {"X-A": "{{secret:}}"}}, "config.headers.X-A"),
        ({"headers": {"X-Parley-Context-Actor": "root"}}, "config.headers.X-Parley-Context-Actor"),
        ({"query": {"key": "{{ env:KEY }}"}}, "config.query.key"),
        ({"method": "GET", "body": "json"}, "config.body"),
        ({"method": "HEAD", "body": "form"}, "config.body"),
        ({"method": "POST", "body": "none", "parameters": ID}, "config.body"),
        ({"idempotency_header": "Content-Length"}, "config.idempotency_header"),
        ({"ok": [404, 99]}, "config.ok[1]"),
        ({"url": "https://api.example.com/{id}", "slashes": ["id", "other"], "parameters": ID}, "config.slashes[1]"),
        ({"send": {"id": "cookie"}, "parameters": ID}, "config.send.id"),
        ({"send": {"id": "header"}, "parameters": ID}, "config.send.id"),
        ({"send": {"id": "header:Host"}, "parameters": ID}, "config.send.id"),
        ({"send": {"id": "header:X-A"}, "headers": {"x-a": "1"}, "parameters": ID}, "config.send.id"),
        ({"query": {"id": "1"}, "parameters": ID}, "parameters.properties.id"),
        ({"url": "https://api.example.com/?id=1", "parameters": ID}, "parameters.properties.id"),
        ({"send": {"b": "query:a"}, "parameters": A_AND_B}, "config.send.b"),
        ({"send": {"a": "header:X-A", "b": "header:x-a"}, "parameters": A_AND_B}, "config.send.b"),
        ({"send": {"other": "query"}, "parameters": ID}, "config.send.other"),
        ({"send": {"id": "body"}, "parameters": ID}, "config.send.id"),
        ({"url": "https://api.example.com/{id}", "send": {"id": "query"}, "parameters": ID}, "config.send.id"),
        ({"method": "POST", "send": {"id": "whole"}, "parameters": OPTIONAL}, "config.send.id"),
        ({"method": "POST", "body": "form", "send": {"id": "whole"}, "parameters": ID}, "config.send.id"),
        ({"oauth": {**OAUTH, "client_secret": "in the clear"}}, "config.oauth.client_secret"),
        ({"oauth": {**OAUTH, "client_id": " "}}, "config.oauth.client_id"),
        ({"oauth": {**OAUTH, "token_url": "http://10.0.0.1/t"}}, "config.oauth.token_url"),
        ({"oauth": {**OAUTH, "auth": "jwt"}}, "config.oauth.auth"),
        ({"oauth": OAUTH, "headers": {"authorization": "x"}}, "config.headers.Authorization"),
    ],
)
def test_a_definition_that_cannot_work_is_refused(api: Calling, fields: dict[str, Any], path: str):
    """Each field is checked, and the refusal names it."""
    with pytest.raises(InvalidInput) as refused:
        api.kind.check(api.definition(**{"url": "https://api.example.com/x", **fields}))
    assert refused.value.path == path


@pytest.mark.parametrize(
    "schema", [{"enum": ["a", "b"]}, {"const": 1}, {"anyOf": [{"type": "string"}, {"type": "integer"}]}]
)
def test_a_part_of_the_path_may_be_any_scalar(api: Calling, schema: dict[str, Any]):
    """Texts, numbers and choices of them can fill the path."""
    parameters = {"type": "object", "properties": {"id": schema}, "required": ["id"]}
    api.kind.check(api.definition(url="https://api.example.com/{id}/x", parameters=parameters))


def test_a_definition_without_parameters_has_those_of_its_path(api: Calling):
    """What is in the path is a required text."""
    tool = api.kind.tool(api.definition("/orders/{a}/{b}"), {})
    assert (tool.spec.parameters["required"], tool.spec.effect, tool.spec.source) == (["a", "b"], "read", "http")


async def test_what_keeps_a_tool_from_working_now_is_found_without_a_call(api: Calling):
    """A missing secret and an address that does not answer are named with what to do, and nothing is sent."""
    good = api.definition(headers={"X-Key": "{{secret:KEY}}"})
    assert await api.kind.faults(good) == [
        "There is no secret `KEY` here. An operator sets it with `parley secrets set KEY`."
    ]
    api.secrets["KEY"] = "k"
    assert await api.kind.faults(good) == []
    (refused,) = await api.kind.faults(api.definition(url="http://127.0.0.1:9/x"))
    assert "PARLEY_FETCH_ALLOW" in refused
    assert api.site.requests == []
