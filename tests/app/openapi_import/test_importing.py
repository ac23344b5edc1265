"""OpenAPI documents as HTTP tools: what is written loads as it was meant, and what cannot be a tool is named."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from agent_core.agents import ToolDefinition
from agent_core.errors import ConfigError
from agent_core.net.fetch import Fetch
from agent_core.runtime.tools import ToolPorts
from agent_core.schemas import schema_problem
from agent_core.testing import ScriptedProvider
from agent_core.tools.builtin import BUILTIN
from app.cli.commands import app
from app.files import ToolFiles, read_tools
from app.openapi_document import document_of
from app.openapi_import import Imported, imported, written
from tests.cases import for_each
from tests.conftest import MakeCore

SHOP = Path(__file__).with_name("shop.yaml")


def tools(text: bytes | None = None, *only: str, server: str | None = None, source: str = "shop.yaml") -> Imported:
    document = document_of(SHOP.read_bytes() if text is None else text, source)
    return imported(document, only=only, server=server, source=source)


def named(name: str) -> ToolDefinition:
    return next(each for each in tools().tools if each.name == name)


def test_what_is_written_loads_unchanged(tmp_path):
    """The file defines the same tools, each with a schema that is valid, and says which secrets to set."""
    found = tools()
    text = written(found, "shop.yaml")
    (tmp_path / "shop.yaml").write_text(text)
    read = read_tools(tmp_path)
    assert (read.broken, "&id" in text) == ({}, False)
    assert [each.definition for each in read.tools[tmp_path / "shop.yaml"]] == list(found.tools)
    assert [schema_problem(each.parameters or {}) for each in found.tools] == [None] * len(found.tools)
    assert "# parley secrets set SHOP_API_KEY_AUTH  # the header X-Api-Key" in text
    assert set(found.secrets) == {
        "SHOP_API_KEY_AUTH",
        "SHOP_KEY",
        "SHOP_LOGIN",
        "SHOP_BASIC",
        "SHOP_CLIENT_ID",
        "SHOP_CLIENT_SECRET",
    }


def test_a_document_writes_no_line_of_the_file(tmp_path):
    """A key or a path with line ends in its name adds no tool to the file, and no command to what is printed."""
    scheme = {"type": "apiKey", "in": "query", "name": "key\n- name: stolen\n  kind: http\n# "}
    document = {
        "openapi": "3.0.0",
        "info": {"title": "Odd"},
        "servers": [{"url": "https://odd.example.com"}],
        "components": {"securitySchemes": {"odd": scheme}},
        "security": [{"odd": []}],
        "paths": {
            "/fine": {"get": {"operationId": "fine"}},
            "/x\nparley secrets set A": {"get": {"parameters": [{"in": "odd", "name": "q", "required": True}]}},
        },
    }
    (tmp_path / "odd.json").write_text(json.dumps(document))
    found = CliRunner().invoke(app, ["tools", "import", str(tmp_path / "odd.json")])
    assert [each["name"] for each in yaml.safe_load(found.stdout)] == ["fine"]
    remarks = found.stderr.splitlines()
    assert [line.split()[0] for line in remarks] == ["skipped", "parley"], remarks


def test_a_read_has_its_parameters_in_the_query_and_headers():
    """Odd names become plain ones that are sent as they were, 3.0's own words become JSON Schema's."""
    tool = named("orders_list")
    assert (tool.effect, tool.resource, tool.description) == ("read", "orders", "List orders.")
    assert tool.parameters == {
        "type": "object",
        "properties": {
            "X-Request-Source": {"type": "string"},
            "filter_status": {
                "type": ["string", "null"],
                "enum": ["open", "closed", None],
                "description": "Which ones.",
            },
            "limit": {"type": "integer", "exclusiveMinimum": 0, "maximum": 100},
        },
        "required": [],
        "additionalProperties": False,
    }
    assert tool.config == {
        "method": "GET",
        "url": "https://eu.shop.example.com/v1/orders",
        "headers": {"X-Api-Key": "{{secret:SHOP_API_KEY_AUTH}}"},
        "send": {"X-Request-Source": "header:X-Request-Source", "filter_status": "query:filter[status]"},
    }


def test_a_write_has_its_body_beside_its_parameters():
    """Fields of the body that are called like a parameter get a suffix, and those that are read only are left out."""
    tool = named("orders_create")
    parameters: dict[str, Any] = tool.parameters or {}
    assert list(parameters["properties"]) == ["X-Request-Source", "dry_run", "due", "lines", "dry_run_body"]
    assert parameters["required"] == ["lines"]
    assert parameters["properties"]["lines"]["items"]["properties"]["sku"] == {"type": "string", "pattern": "^[A-Z]+$"}
    assert (tool.effect, tool.description) == ("write", "Place an order.\n\nIt is paid later.")
    assert tool.config["send"] == {
        "X-Request-Source": "header:X-Request-Source",
        "dry_run": "query",
        "dry_run_body": "body:dry_run",
    }


@for_each(
    "name, config",
    [
        ("orders_get", {"url": "https://eu.shop.example.com/v1/orders/{order-id}"}),
        (
            "orders_change",
            {
                "headers": {"Authorization": "Bearer {{secret:SHOP_LOGIN}}"},
                "send": {"note": "query", "note_body": "body:note"},
            },
        ),
        (
            "orders_delete",
            {
                "oauth": {
                    "token_url": "https://auth.example.com/token",
                    "client_id": "{{secret:SHOP_CLIENT_ID}}",
                    "client_secret": "{{secret:SHOP_CLIENT_SECRET}}",
                    "scope": "orders:write",
                }
            },
        ),
        ("orders_replace_all", {"method": "PUT", "send": {"body": "whole"}}),
        ("login", {"body": "form", "query": {"key": "{{secret:SHOP_KEY}}"}}),
        ("get_categories", {"headers": {"Authorization": "Basic {{secret:SHOP_BASIC}}"}}),
    ],
)
def test_each_kind_of_operation_has_its_config(name: str, config: dict[str, Any]):
    """Paths, bodies, forms and ways in become what an HTTP tool sends."""
    assert config.items() <= named(name).config.items()


def test_a_schema_that_contains_itself_ends():
    """At its second appearance it has its type alone."""
    where: Any = (named("get_categories").parameters or {})["properties"]["where"]
    assert where["properties"]["children"]["items"] == {"type": "object"}


def test_operations_that_cannot_be_tools_are_named():
    """What is skipped has its method, its path, and why."""
    upload, broken = tools().skipped
    assert upload == "POST /files: its body is multipart/form-data; JSON and forms are sent"
    assert broken == "GET /broken: there is no `#/components/schemas/Missing`"


@for_each(
    "parameter, says",
    [
        ({"style": "deepObject", "schema": {"type": "string"}}, "has the style `deepObject`"),
        ({"style": "pipeDelimited", "schema": {"type": "array"}}, "has the style `pipeDelimited`"),
        ({"explode": False, "schema": {"type": "array"}}, "`explode: false`"),
        ({"explode": False, "schema": {"anyOf": [{"type": "string"}, {"items": {}}]}}, "`explode: false`"),
        ({"schema": {"type": ["object", "null"]}}, "is an object"),
        ({"in": "header", "schema": {"type": "array"}}, "list with commas"),
        ({"in": "path", "style": "label", "schema": {"type": "string"}}, "has the style `label`"),
        ({"explode": False, "style": "form", "schema": {"type": "string"}}, None),
        ({"schema": {"type": "array"}}, None),
        ({"content": {"application/json": {"schema": {"type": "object"}}}}, None),
    ],
)
def test_a_parameter_that_would_be_sent_wrongly_is_named(parameter: dict[str, Any], says: str | None):
    """Lists repeat the name and JSON is sent; an operation that requires anything else is skipped."""
    skipped = of_operation({"parameters": [{"name": "x", "in": "query", "required": True, **parameter}]}).skipped
    assert len(skipped) == (says is not None)
    assert says is None or says in skipped[0]


def test_an_optional_parameter_that_would_be_sent_wrongly_is_left_out_and_named():
    """The operation is a tool without it."""
    page = {"name": "page", "in": "query", "schema": {"type": "integer"}}
    expand = {"name": "expand", "in": "query", "style": "deepObject", "schema": {"type": "array"}}
    cookie = {"name": "theme", "in": "cookie", "schema": {"type": "string"}}
    found = of_operation({"parameters": [page, expand, cookie]})
    assert [list((tool.parameters or {})["properties"]) for tool in found.tools] == [["page"]]
    assert (found.skipped, found.left_out) == (
        [],
        [
            "GET /a: its query parameter `expand` has the style `deepObject`, which is not sent",
            "GET /a: its cookie parameter `theme` cannot be sent",
        ],
    )


def test_names_that_fastapi_makes_lose_their_route():
    """A function's name is the tool's, where no two have it; globs match it with and without the route."""
    ids = {"/orders/{id}": "get_order_orders__id__get", "/orders": "search_orders_get", "/users": "search_users_get"}
    paths = {
        path: {"get": {"operationId": id, "parameters": [{"name": "id", "in": "path"}] if "{" in path else []}}
        for path, id in ids.items()
    }
    text = json.dumps({"openapi": "3.1.0", "paths": paths}).encode()
    for only in ((), ("get_*", "search"), tuple(ids.values())):
        made = tools(text, *only, server="https://api.example.com").tools
        assert [each.name for each in made] == ["get_order", "search_orders_get", "search_users_get"]


@pytest.mark.parametrize(
    ("encoding", "says"),
    [({"style": "deepObject"}, "the field `x` of its form has the style `deepObject`"), ({"explode": True}, None)],
)
@pytest.mark.parametrize("required", [True, False])
def test_a_form_that_would_be_sent_wrongly_is_named(encoding: dict[str, Any], says: str | None, required: bool):
    """The fields of a form are written as those of a query; without an optional one there is a tool."""
    properties = {"x": {"type": "array"}, "y": {"type": "string"}}
    schema = {"type": "object", "properties": properties, "required": ["x"] if required else []}
    form = {"application/x-www-form-urlencoded": {"schema": schema, "encoding": {"x": encoding}}}
    found = of_operation({"requestBody": {"content": form, "required": True}}, "post")
    assert [says in line if says else line for line in (found.skipped, found.left_out)[not required]] == (
        [True] if says else []
    )
    fields = [list((tool.parameters or {})["properties"]) for tool in found.tools]
    assert fields == ([] if says and required else [["y"]] if says else [["x", "y"]])


def test_an_optional_form_with_a_field_that_cannot_be_sent_is_no_tool():
    """Where the form's own schema requires the field, a form without it would be wrong."""
    schema = {"type": "object", "properties": {"x": {"type": "array"}, "y": {}}, "required": ["x"]}
    encoding = {"x": {"style": "deepObject"}}
    content = {"application/x-www-form-urlencoded": {"schema": schema, "encoding": encoding}}
    found = of_operation({"requestBody": {"content": content}}, "post")
    assert (found.tools, len(found.skipped)) == ([], 1)
    content["application/x-www-form-urlencoded"]["encoding"] = ["x"]
    assert of_operation({"requestBody": {"content": content}}, "post").tools


@for_each("name, header", [("idempotency-key", None), ("X-Idempotency-Key", "X-Idempotency-Key")])
def test_the_key_of_a_call_is_not_asked_of_the_model(name: str, header: str | None):
    """The header is sent by Parley, under the API's name."""
    parameter = {"name": name, "in": "header", "required": True, "schema": {"type": "string"}}
    (tool,) = of_operation({"parameters": [parameter]}, "post").tools
    assert (tool.parameters or {})["properties"] == {}
    assert (tool.config.get("idempotency_header"), tool.config.get("send")) == (header, None)


def of_operation(operation: dict[str, Any], method: str = "get") -> Imported:
    path = "/a/{x}" if "path" in [each["in"] for each in operation.get("parameters", ())] else "/a"
    document = {"openapi": "3.0.3", "paths": {path: {method: {"summary": "It.", **operation}}}}
    return tools(json.dumps(document).encode(), server="https://api.example.com")


@for_each(
    "only, names",
    [
        (("orders.*",), ["list", "create", "get", "change", "delete", "replace_all"]),
        (("Access", "orders.get"), ["get", "login"]),
        (("nothing",), []),
    ],
)
def test_globs_choose_by_id_and_by_tag(only: tuple[str, ...], names: list[str]):
    """Only what a glob matches is made into a tool."""
    assert [each.name.removeprefix("orders_") for each in tools(None, *only).tools] == names


@for_each(
    "text, says",
    [
        (b"{", "cannot be read"),
        (b"[1]", "but list"),
        (b"\xff", "UTF-8"),
        (b'{"swagger": "2.0"}', "says 2.0"),
        (b'{"openapi": "3.1.0", "paths": {"/a": {"get": {}}}}', "--server"),
        (b"a: &a [*a]", "cannot be read"),
    ],
)
def test_a_document_that_cannot_be_read_is_refused(text: bytes, says: str):
    """What is no OpenAPI document, and one without a server, is refused with what to do."""
    with pytest.raises(ConfigError, match=says):
        tools(text)


def test_an_enormous_schema_is_cut_to_what_a_tool_may_have():
    """Schemas that refer to each other without end, and in breadth, are written out only so far."""
    wide = {f"p{n}": {"$ref": f"#/components/schemas/S{n}"} for n in range(40)}
    schemas = {f"S{n}": {"type": "object", "properties": wide} for n in range(40)}
    body = {"required": True, "content": {"application/json": {"schema": schemas["S0"]}}}
    paths = {"/a/b": {"post": {"requestBody": body}, "get": {"operationId": "post_a_b"}}}
    text = json.dumps({"openapi": "3.1.0", "paths": paths, "components": {"schemas": schemas}}).encode()
    found = tools(text, server="https://api.example.com/")
    assert [each.name for each in found.tools] == ["post_a_b", "post_a_b_2"]
    assert len(json.dumps([each.parameters for each in found.tools])) < 30_000


@pytest.mark.whole
def test_the_command_writes_a_file_once_more_and_no_other(tmp_path):
    """`parley tools import` replaces what it wrote itself, and refuses to replace another file."""
    run = lambda *more: CliRunner().invoke(app, ["tools", "import", str(SHOP), *more])  # noqa: E731
    assert yaml.safe_load(run("--only", "login").stdout)[0]["name"] == "login"
    for _ in range(2):
        assert run("--out", str(tmp_path)).exit_code == 0
    (tmp_path / "shop.yaml").write_text("name: mine\n")
    refused = run("--out", str(tmp_path))
    assert isinstance(refused.exception, ConfigError)
    assert isinstance(run("--out", str(tmp_path), "--force").exception, ConfigError)
    assert (tmp_path / "shop.yaml").read_text() == "name: mine\n"


@pytest.mark.whole
def test_the_command_replaces_no_edit_and_no_other_tools_unless_it_must(tmp_path):
    """A file that was edited, or that has other tools, is replaced with `--force` alone."""
    run = lambda *more: CliRunner().invoke(app, ["tools", "import", str(SHOP), "--out", str(tmp_path), *more])  # noqa: E731
    assert run("--only", "login", "--only", "orders.get").exit_code == 0
    whole = (tmp_path / "shop.yaml").read_text()
    assert str(run("--only", "login").exception).startswith(f"{tmp_path / 'shop.yaml'}: has other tools than would be")
    (tmp_path / "shop.yaml").write_text(f"{whole}  pinned: true\n")
    assert "was edited" in str(run("--only", "login", "--only", "orders.get").exception)
    assert run("--only", "login", "--only", "orders.get", "--force").exit_code == 0
    assert (tmp_path / "shop.yaml").read_text() == whole


async def test_a_server_loads_what_is_written(tmp_path: Path, make_core: MakeCore):
    """Operations without a text, and with names that are taken or reserved, are tools all the same."""
    plain = {"responses": {"200": {"description": "Fine."}}}
    paths = {
        "/sum": {"get": {"operationId": "calculate", **plain}},
        "/b": {"get": {"operationId": "mcp__b", **plain}, "post": {"operationId": "call_tool", **plain}},
        "/old": {"get": {"operationId": "old", "deprecated": True, **plain}},
        "/id": {"get": {"operationId": "tool_0123456789abcdef", **plain}},
    }
    document = {"openapi": "3.1.0", "info": {"title": "T"}, "paths": paths, "servers": [{"url": "https://a.example"}]}
    found = tools(json.dumps(document).encode())
    said = {each.name: each.description for each in found.tools}
    assert said == {
        "calculate_2": "GET /sum",
        "api_mcp__b": "GET /b",
        "call_tool_2": "POST /b",
        "old": "Deprecated. GET /old",
    }
    assert found.skipped == ["GET /id: `name`: a name that reads like the id of a tool; choose another one."]
    (tmp_path / "t.yaml").write_text(written(found, "t.json"))
    core = await make_core(ScriptedProvider([]), tools=BUILTIN, tool_ports=ToolPorts(fetch=Fetch()))
    files = ToolFiles(tmp_path)
    await files.load(core)
    assert files.problems == []
