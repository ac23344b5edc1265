"""What an HTTP tool sends: each body mode, the path, headers, the caller's context, the idempotency key."""

import json
from typing import Any
from urllib.parse import quote

import pytest

from agent_core.tools.base import Done
from tests.agent_core.tools.http.calling import Calling

ORDER = {
    "type": "object",
    "properties": {
        "order_id": {"type": "string"},
        "note": {"type": "string"},
        "lines": {"type": "array", "items": {"type": "integer"}},
        "dry_run": {"type": "boolean"},
    },
    "required": ["order_id"],
}
GIVEN = {"order_id": "A 1", "note": "größer & mehr", "lines": [1, 2], "dry_run": True}


def parameters(**properties: Any) -> dict[str, Any]:
    """Return a schema in which every property is required."""
    return {"type": "object", "properties": properties, "required": list(properties)}


@pytest.mark.parametrize(
    ("fields", "path", "kind", "body"),
    [
        ({"method": "GET"}, "?note=gr%C3%B6%C3%9Fer%20%26%20mehr&lines=1&lines=2&dry_run=true", None, b""),
        (
            {"method": "POST"},
            "",
            "application/json",
            '{"note":"größer & mehr","lines":[1,2],"dry_run":true}'.encode(),
        ),
        (
            {"method": "PUT", "body": "form"},
            "",
            "application/x-www-form-urlencoded",
            b"note=gr%C3%B6%C3%9Fer+%26+mehr&lines=1&lines=2&dry_run=true",
        ),
        (
            {"method": "POST", "body": "query"},
            "?note=gr%C3%B6%C3%9Fer%20%26%20mehr&lines=1&lines=2&dry_run=true",
            None,
            b"",
        ),
        (
            {"method": "PATCH", "send": {"dry_run": "query:test", "note": "body:text", "lines": "body"}},
            "?test=true",
            "application/json",
            '{"text":"größer & mehr","lines":[1,2]}'.encode(),
        ),
        (
            {"method": "DELETE", "body": "json", "query": {"by": "{{secret:WHO}}"}},
            "?by=a%26b%3D1",
            "application/json",
            '{"note":"größer & mehr","lines":[1,2],"dry_run":true}'.encode(),
        ),
    ],
)
async def test_arguments_go_where_the_definition_says(api: Calling, fields, path, kind, body):
    """Arguments fill the path, and go in the query, a form or JSON; the rest follows the method."""
    api.secrets["WHO"] = "a&b=1"
    await api.done(GIVEN, "/orders/{order_id}", parameters=ORDER, **fields)
    (sent,) = api.site.requests
    assert (sent.method, sent.path) == (fields["method"], f"/orders/A%201{path}")
    assert (sent.headers.get("content-type"), sent.body) == (kind, body)


async def test_an_argument_may_be_a_header_or_the_whole_body(api: Calling):
    """`send` puts an argument into a header, and one that is no object into the body as it is."""
    schema = parameters(items={"type": "array"}, tag={"type": "string"})
    send = {"items": "whole", "tag": "header:X-Tag"}
    await api.done({"items": [1, {"a": 2}], "tag": "blue"}, method="POST", send=send, parameters=schema)
    (sent,) = api.site.requests
    assert (json.loads(sent.body), sent.headers["x-tag"]) == ([1, {"a": 2}], "blue")


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ("a..b..c?d#e", "/orders/a..b..c%3Fd%23e/x"),
        ("{{secret:KEY}}", "/orders/%7B%7Bsecret%3AKEY%7D%7D/x"),
        ("{order_id}", "/orders/%7Border_id%7D/x"),
        ("a\r\nHost: b", "/orders/a%0D%0AHost%3A%20b/x"),
        (7, "/orders/7/x"),
        (True, "/orders/true/x"),
    ],
)
async def test_a_value_stays_within_its_segment_of_the_path(api: Calling, value, path):
    """A value can neither leave its place in the path nor name a secret."""
    api.secrets["KEY"] = "s3cr3t-value"
    schema = parameters(order_id={"type": ["string", "integer", "boolean"]})
    await api.done({"order_id": value}, "/orders/{order_id}/x", parameters=schema, headers={"X-Key": "{{secret:KEY}}"})
    assert api.site.requests[0].path == path


@pytest.mark.parametrize("value", ["7/admin", "7\\admin", "7%2Fadmin", "7%255cadmin"])
async def test_a_value_of_the_path_is_one_segment_unless_its_author_says_otherwise(api: Calling, value: str):
    """A server that decodes `%2F` before it looks where a path leads reads another path; `slashes` allows it."""
    message = await api.failed({"order_id": value}, "/orders/{order_id}/x")
    assert (message, api.site.requests) == (
        "`order_id` is one part of the address, so it must be a text without `/` and `\\`.",
        [],
    )
    await api.done({"order_id": value}, "/orders/{order_id}/x", slashes=["order_id"])
    assert api.site.requests[0].path == f"/orders/{quote(value, safe='')}/x"


async def test_a_preset_of_the_path_is_its_authors(api: Calling):
    """What no model can set may have a `/`, percent-encoded."""
    await api.done({}, "/orders/{order_id}/x", preset={"order_id": "group/7"}, parameters=parameters(order_id={}))
    assert api.site.requests[0].path == "/orders/group%2F7/x"


@pytest.mark.parametrize(
    "value",
    ["", ".", "..", "../admin", "x/../../admin", "..\\admin", "%2e%2e", "..%2fadmin", "%252e./a", "..;/admin", "a/ .."],
)
async def test_a_value_that_would_name_another_place_is_not_sent(api: Calling, value):
    """An empty segment, and one that goes up, are refused, and the model reads why."""
    message = await api.failed({"order_id": value}, "/orders/{order_id}/x", slashes=["order_id"])
    assert ("order_id" in message or "`..`" in message, api.site.requests) == (True, [])


@pytest.mark.parametrize("value", ["a\r\nX-Admin: 1", "naïve", "a\0b"])
async def test_a_header_has_one_line_of_plain_characters(api: Calling, value):
    """An argument cannot bring a second header with it."""
    schema = parameters(tag={"type": "string"})
    message = await api.failed({"tag": value}, send={"tag": "header:X-Tag"}, parameters=schema)
    assert ("`tag`" in message, api.site.requests) == (True, [])


async def test_secrets_are_filled_into_the_authors_texts_and_presets_alone(api: Calling):
    """A preset may refer to a secret, nested in it too; what the model writes never does."""
    api.secrets |= {"KEY": "k-123456", "TOKEN": "t/+ 789"}
    await api.done(
        {"note": "{{secret:KEY}}"},
        "/bot{{secret:TOKEN}}/send",
        method="POST",
        parameters=parameters(note={"type": "string"}),
        headers={"Authorization": "Bearer {{secret:KEY}}"},
        preset={"auth": {"keys": ["{{secret:KEY}}"]}},
    )
    (sent,) = api.site.requests
    assert sent.path == "/bott%2F%2B%20789/send"
    assert sent.headers["authorization"] == "Bearer k-123456"
    assert json.loads(sent.body) == {"note": "{{secret:KEY}}", "auth": {"keys": ["k-123456"]}}


async def test_the_callers_context_goes_as_headers(api: Calling):
    """Only the keys that the definition lists are sent, and the core's own cannot be set by a caller."""
    api.context |= {"email": "ann@example.com", "actor": "root", "plan": "gold"}
    await api.done(context=("actor", "email", "channel", "missing"))
    sent = {name: value for name, value in api.site.requests[0].headers.items() if "parley" in name}
    assert sent == {
        "x-parley-context-actor": "ann",
        "x-parley-context-email": "ann@example.com",
        "x-parley-context-channel": "web",
    }


@pytest.mark.parametrize(
    ("fields", "header", "value"),
    [
        ({"method": "POST"}, "idempotency-key", "call_1"),
        ({"method": "GET"}, "idempotency-key", None),
        ({"method": "GET", "effect": "write"}, "idempotency-key", "call_1"),
        ({"method": "POST", "effect": "read"}, "idempotency-key", None),
        ({"method": "POST", "idempotency_header": "X-Request-Id"}, "x-request-id", "call_1"),
        ({"method": "POST", "idempotency_header": None}, "idempotency-key", None),
    ],
)
async def test_a_write_carries_the_calls_id(api: Calling, fields, header, value):
    """Each call that writes has the id of the call as its idempotency key, under the header that the author names."""
    await api.done(**fields)
    assert api.site.requests[0].headers.get(header) == value


async def test_a_body_that_has_no_fields_is_none(api: Calling):
    """Without a parameter that goes there is no body; with optional ones that are left out it is an empty object."""
    await api.done(method="POST")
    await api.done(method="POST", parameters={"type": "object", "properties": {"note": {"type": "string"}}})
    assert [sent.body for sent in api.site.requests] == [b"", b"{}"]


TENANT = {"type": "object", "properties": {"q": {"type": "string"}, "tenant": {"type": "string"}}}


@pytest.mark.parametrize("name", ["tenant_id", "limit", "page", "other"])
async def test_what_the_schema_does_not_list_is_not_sent(api: Calling, name: str):
    """Neither beside the author's query nor beside where a preset goes does an argument of the model's own go."""
    message = await api.failed(
        {"q": "x", name: "victim"},
        "/orders?page=1",
        parameters=TENANT,
        preset={"tenant": "acme"},
        send={"tenant": "query:tenant_id"},
        query={"limit": "10"},
    )
    assert (f"`{name}` is no argument" in message, api.site.requests) == (True, [])


@pytest.mark.parametrize(("name", "sent"), [("tenant_id", False), ("limit", False), ("other", True)])
async def test_a_schema_may_allow_other_arguments_where_nothing_else_goes(api: Calling, name: str, sent: bool):
    """`additionalProperties` opens a tool, and not the places that are taken."""
    call = api.call(
        {"q": "x", name: "1"},
        parameters={**TENANT, "additionalProperties": True},
        preset={"tenant": "acme"},
        send={"tenant": "query:tenant_id"},
        query={"limit": "10"},
    )
    assert isinstance(await call, Done) is sent
    assert [each.path for each in api.site.requests] == ["/orders?limit=10&q=x&other=1&tenant_id=acme"] * sent


async def test_alternatives_of_a_schema_list_arguments_too(api: Calling):
    """What only one of the alternatives has is sent."""
    alternatives = [{"properties": {"by_id": {"type": "string"}}}, {"properties": {"by_name": {"type": "string"}}}]
    await api.done({"by_name": "x"}, parameters={"type": "object", "anyOf": alternatives})
    assert api.site.requests[0].path == "/orders?by_name=x"
