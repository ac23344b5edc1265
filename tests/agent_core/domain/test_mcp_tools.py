"""What is taken of the listings of MCP servers: names that providers take, and texts that hide nothing."""

import re

from hypothesis import given
from hypothesis import strategies as st

from agent_core.listings import cleaned, names_of, pin, resource_of, spec_of, taken
from agent_core.servers import McpAnnotations, McpServer
from tests.agent_core.mcp_servers import listing, mcp_tool

LEGAL = re.compile(r"[A-Za-z0-9_-]{1,64}")
SERVERS = st.lists(st.sampled_from(["a", "a_", "a__b", "x" * 32]), unique=True)
TOOLS = st.lists(st.text("ab_./ é", min_size=1, max_size=90), unique=True, max_size=8)


@given(SERVERS.flatmap(lambda names: st.tuples(*(st.tuples(st.just(name), TOOLS) for name in names))))
def test_names_fit_every_provider_and_are_unique(servers: tuple[tuple[str, list[str]], ...]):
    """Whatever servers call their tools, each has a legal name of its own, whatever the order of a listing."""
    found = names_of(servers)
    assert [name for name in found.values() if not LEGAL.fullmatch(name)] == []
    assert len(set(found.values())) == sum(len(tools) for _, tools in servers)
    assert found == names_of([(name, sorted(tools, reverse=True)) for name, tools in servers])


def test_a_plain_name_stays():
    """A name that no other tool can come to have is the server's own; others end in a hash."""
    found = names_of([("a", ["b__c", "get file", "get_file"]), ("a__b", ["c"])])
    assert found["a", "get_file"] == "mcp__a__get_file"
    assert found["a", "b__c"] == "mcp__a__b__c"
    assert re.fullmatch(r"mcp__a__get_file_[0-9a-f]{16}", found["a", "get file"])
    assert re.fullmatch(r"mcp__a__b__c_[0-9a-f]{16}", found["a__b", "c"])


@given(SERVERS.flatmap(lambda names: st.tuples(*(st.tuples(st.just(name), TOOLS) for name in names))))
def test_a_name_depends_on_no_other_tool(servers: tuple[tuple[str, list[str]], ...]):
    """A tool has the name that it has alone, so what was approved under a name never becomes another tool."""
    for (server, tool), name in names_of(servers).items():
        assert names_of([(server, [tool])]) == {(server, tool): name}


def test_no_tool_takes_the_hashed_name_of_another():
    """A server that calls a tool as another one's name with its hash gets a second hash for it."""
    first = names_of([("a", ["get file"])])["a", "get file"]
    later = names_of([("a", ["get file", first.removeprefix("mcp__a__")])])
    assert later["a", "get file"] == first
    assert len(set(later.values())) == 2


def test_hidden_characters_and_unusable_schemas_are_not_taken():
    """Descriptions lose what people cannot see; a tool that hides it in names, or has no usable schema, is left out."""
    described = {"properties": {"q": {"description": "a\u2062b"}}}
    kept = cleaned(
        listing(
            mcp_tool("plain", "Read\u200b it.\U000e0041", parameters=described),
            mcp_tool("hid\u200bden"),
            mcp_tool("argument", parameters={"type": "object", "properties": {"q\u200b": {}}}),
            mcp_tool("list", parameters={"type": "array"}),
            mcp_tool("broken", parameters={"type": "object", "properties": 7}),
            mcp_tool("long", "x" * 9_000),
        ),
        lambda text: text.replace("it", "[secret]"),
    )
    plain = next(tool for tool in kept.listing.tools if tool.name == "plain")
    assert plain.description == "Read [secret]."
    assert plain.parameters == {"type": "object", "properties": {"q": {"description": "ab"}}}
    assert [tool.name for tool in kept.listing.tools] == ["long", "plain"]
    assert len(kept.listing.tools[0].description) == 4_000
    assert sorted(each.tool for each in kept.left_out) == ["argument", "broken", "hidden", "list"]


def test_a_pin_is_of_what_is_said_and_not_of_its_order():
    """Another order of a schema's keys is no change; another description, schema, title or annotation is one."""
    one = mcp_tool("a", parameters={"type": "object", "properties": {"x": {}, "y": {}}})
    same = mcp_tool("a", parameters={"properties": {"y": {}, "x": {}}, "type": "object"})
    others = [
        mcp_tool("a", "Another.", parameters=one.parameters),
        mcp_tool("a", parameters={"type": "object"}),
        mcp_tool("a", parameters=one.parameters, title="A"),
        mcp_tool("a", parameters=one.parameters, annotations=McpAnnotations(read_only=True)),
    ]
    assert pin(one) == pin(same)
    assert len({pin(each) for each in (one, *others)}) == 5


def test_only_a_trusted_server_is_believed():
    """Without trust a call is a write that nothing repeats, whatever the server says of it."""
    said = mcp_tool("get", annotations=McpAnnotations(read_only=True, idempotent=True))
    stranger = spec_of(McpServer(name="a"), said, "mcp__a__get")
    friend = spec_of(McpServer(name="a", trusted=True), said, "mcp__a__get")
    assert (stranger.effect, stranger.idempotent, stranger.concurrency_safe) == ("write", False, False)
    assert (friend.effect, friend.idempotent, friend.concurrency_safe) == ("read", True, True)
    assert (stranger.source, stranger.resource) == ("mcp", "a")


def test_a_tool_that_vendors_or_this_process_would_refuse_is_taken():
    """Models are shown a schema that every vendor takes; the listing keeps what the server said, so pins stay."""
    said = {"type": "object", "oneOf": [{"properties": {"$top": {"pattern": "^(?!0)"}}}]}
    kept = cleaned(listing(mcp_tool("list", parameters=said)))
    assert (kept.left_out, [tool.parameters for tool in kept.listing.tools]) == ((), [said])
    shown = spec_of(McpServer(name="a"), kept.listing.tools[0], "mcp__a__list").parameters
    assert shown == {"type": "object", "properties": {"top": {"description": "(`$top`)"}}}


def test_a_tools_resource_is_the_mark_then_the_noun_then_the_server():
    """The noun is that of the server's own name, also where the tool's name ends in a hash."""
    marked, noun, plain = mcp_tool("list_orders", resource="till"), mcp_tool("orders.list"), mcp_tool("search")
    found = [spec_of(McpServer(name="shop"), tool, "mcp__shop__x_0123456789abcdef") for tool in (marked, noun, plain)]
    assert [resource_of(each) for each in found] == ["till", "order", "shop"]


def test_tools_are_taken_by_globs_over_the_servers_own_names():
    """A tool is taken that one of `allow` matches and none of `deny`."""
    server = McpServer(name="a", allow=("get_*", "list"), deny=("get_secret*",))
    names = ["get_issue", "get_secrets", "list", "delete"]
    assert [name for name in names if taken(server, name)] == ["get_issue", "list"]
