"""The router: which tools leave the prompt, how they are found, and what is shown of them."""

import msgspec

from agent_core.agent import router
from agent_core.agent.snapshot import freeze, snapshot_of, variant
from agent_core.agents import ROUTER_TOOLS, Definition, ToolSpec
from agent_core.listings import spec_of
from agent_core.servers import McpServer
from tests.agent_core.history import spec
from tests.agent_core.mcp_servers import mcp_tool
from tests.cases import for_each

NOUNS = ("order", "customer", "invoice", "parcel", "refund", "voucher", "review", "product", "stock", "supplier")
VERBS = ("list", "get", "create", "update", "delete", "search")


def shop(noun: str, verb: str, description: str = "") -> ToolSpec:
    properties = {"id": {"type": "integer", "description": f"The {noun}'s number."}}
    return ToolSpec(
        name=f"{verb}_{noun}",
        description=description or f"{verb.title()} a {noun} of the shop. More on it.",
        parameters={"type": "object", "properties": properties},
    )


SHOP = tuple(shop(noun, verb) for noun in NOUNS for verb in VERBS)


def many(count: int) -> tuple[ToolSpec, ...]:
    return tuple(shop(f"thing{n // 5}", VERBS[n % 5]) for n in range(count))


def named(specs) -> list[str]:
    return [each.name for each in specs]


def agent(**fields) -> Definition:
    return Definition(name="a", instructions="", **fields)


def test_an_agent_with_few_tools_has_them_in_its_prompt():
    """Up to the limit nothing is routed."""
    assert router.offer_of(agent(), SHOP, 60) == (SHOP, ())


@for_each("limit", [59, 0])
def test_above_the_limit_the_prompt_has_the_routers_tools(limit: int):
    """One tool more than the limit, and all of them are routed; with 0 always."""
    prompt, routed = router.offer_of(agent(), SHOP, limit)
    assert named(prompt) == list(ROUTER_TOOLS)
    assert routed == [*SHOP]


def test_a_limit_of_zero_needs_a_tool_to_route():
    """An agent without tools, or with pinned ones alone, has no use for a router."""
    kept = (spec("render_table", source="render"), spec("help", pinned=True), spec("answer", kind="none"))
    assert router.offer_of(agent(), (), 0) == ((), ())
    assert router.offer_of(agent(), kept, 0) == (kept, ())


def test_what_is_pinned_stays_and_is_not_counted():
    """Pinned tools, those that show tables, and the forms of an answer stay in the prompt; a client's are routed."""
    kept = (spec("render_table"), spec("help", pinned=True), spec("answer", kind="none"))
    where = spec("where", kind="client")
    assert router.offer_of(agent(), (*SHOP, *kept), 60) == ((*SHOP, *kept), ())
    prompt, routed = router.offer_of(agent(), (*SHOP, *kept, where), 60)
    assert named(prompt) == [*named(kept), *ROUTER_TOOLS]
    assert routed == [*SHOP, where]


def test_the_router_may_be_off():
    """With `off` all tools stay in the prompt, whatever their number."""
    assert router.offer_of(agent(router="off"), SHOP, 0) == (SHOP, ())


@for_each("grown", [{"mcp_servers": ("shop",)}, {"tools": ("list_*",)}])
def test_an_agent_that_may_get_more_tools_can_call_them_by_name(grown):
    """Without a router the prompt of an agent with a server, or a glob, has `call_tool`; also with the router off."""
    for routing in ("auto", "off"):
        prompt, routed = router.offer_of(agent(router=routing, **grown), SHOP[:2], 40)
        assert (named(prompt), routed) == (["list_order", "get_order", "call_tool"], ())


def test_five_hundred_tools_add_nothing_to_a_prompt_but_the_routers():
    """The prompt's tools have the same bytes with 41 tools and with 500; the hash tells the lists apart."""
    few, lot = (
        snapshot_of(agent(), offer.prompt, model="m", routed=offer.routed)
        for offer in (router.offer_of(agent(), many(count), 40) for count in (41, 500))
    )
    assert (few.tools, few.shared) == (lot.tools, lot.shared)
    assert named(few.tools) == list(ROUTER_TOOLS)
    assert few.hash != lot.hash
    assert len(lot.routed) == 500


def test_the_tools_of_one_server_are_many_resources():
    """A large server is no resource of its own: its tools are shown by what they are about."""
    server = McpServer(name="shop", url="https://mcp.example.com")
    served = [spec_of(server, mcp_tool(each.name), f"mcp__shop__{each.name}") for each in SHOP]
    assert "\n- order: mcp__shop__create_order" in router.listing(served, "create an order")
    shown = router.definitions(served, "order") or ""
    assert [name for name in named(served) if name in shown] == [f"mcp__shop__{verb}_order" for verb in VERBS]


def test_a_snapshot_without_routed_tools_has_the_hash_that_it_had():
    """The hash names routed tools only where there are some, and keeps them in a variant of the prompt."""
    plain = freeze(model="m", instructions="", tools=SHOP)
    assert (plain.hash, plain.routed_hash) == ("ea55bd63f0cd1634", "")
    routed = snapshot_of(agent(), (), model="m", routed=reversed(SHOP))
    other = variant(routed, agent(), instructions="Else.")
    assert (other.routed, other.routed_hash) == (routed.routed, routed.routed_hash)
    assert named(routed.routed) == sorted(named(SHOP))
    assert other.hash != routed.hash


def test_all_resources_are_listed_by_name():
    """Without a query each resource is there, with its tools and the beginning of what they do."""
    lines = router.listing(SHOP).splitlines()
    assert lines[0] == "10 resources:"
    assert [line.partition(":")[0] for line in lines[1:]] == [f"- {noun}" for noun in sorted(NOUNS)]
    assert "get_order (Get a order of the shop); create_order" in lines[3]


@for_each(
    "query, first",
    [
        ("refund", "refund"),
        ("How do I get the invoices of a customer?", "customer"),
        ("ship a package", "parcel"),
        ("voucher code", "voucher"),
    ],
)
def test_resources_are_found_by_words(query: str, first: str):
    """Words of the names count most, then those of descriptions; common words and the plural do not matter."""
    tools = (*SHOP, shop("parcel", "send", "Ship a package to a person."))
    assert router.listing(tools, query).splitlines()[1].startswith(f"- {first}:")


def test_the_best_tool_of_a_resource_is_named_first():
    """Within a resource the tools that fit the query come first."""
    assert router.listing(SHOP, "delete an order").splitlines()[1].startswith("- order: delete_order (")


def test_a_query_that_finds_nothing_shows_what_there_is():
    """The model is not left with nothing."""
    lines = router.listing(SHOP, "zeppelin").splitlines()
    assert lines[0] == "No tool fits `zeppelin`. All 10 resources:"
    assert len(lines) == 11


@for_each("query", [None, "thing", "list"])
def test_a_list_is_short_however_many_tools_there_are(query: str | None):
    """Five hundred tools are listed by name, as many as fit, and the rest is said to be there."""
    long = tuple(shop(f"thing{n}", verb, "word " * 400) for n in range(100) for verb in VERBS)
    text = router.listing(long, query)
    assert len(text) < router.MAX_LISTED + 500
    assert text.splitlines()[-1].startswith("And ")


def test_a_resource_shows_its_tools_whole():
    """Name, description and parameters of each tool, as JSON, under any form of the resource's name."""
    text = router.definitions(SHOP, "Orders")
    assert text is not None
    head, *shown = text.splitlines()
    assert head == "Tools of `order`, for `call_tool`:"
    assert len(shown) == len(VERBS)
    assert shown[1] == (
        '{"name":"get_order","description":"Get a order of the shop. More on it.","parameters":{"type":"object",'
        '"properties":{"id":{"type":"integer","description":"The order\'s number."}}}}'
    )


def test_a_large_resource_shows_what_fits_and_the_rest_by_name():
    """Tools beyond the room are named, and shown when they are asked for."""
    large = tuple(shop("order", verb, "word " * 3_000) for verb in VERBS)
    text = router.definitions(large, "order")
    assert text is not None
    assert len(text) < router.MAX_SHOWN + 500
    assert text.endswith("Not shown, ask for them by `tools`: create_order, update_order, delete_order, search_order")
    assert '"name":"delete_order"' in str(router.definitions(large, "order", ["delete_order"]))


def test_an_unknown_resource_names_the_likely_one():
    """A name that no resource has gets the most similar one; that of a tool gets the tool's resource."""
    assert router.definitions(SHOP, "ordr") is None
    assert "`order`" in router.no_resource(SHOP, "ordr")
    assert "tool of the resource `order`" in router.no_resource(SHOP, "get_order")


@for_each(
    "arguments, meant",
    [
        ({"name": "get_order", "arguments": {"id": 1}}, ("get_order", {"id": 1})),
        ({"name": "get_order"}, ("get_order", {})),
        ({"name": "get_order", "arguments": '{"id": 1}'}, ("get_order", {"id": 1})),
        ({"name": "use_resource", "arguments": {"name": "order"}}, ("use_resource", {"name": "order"})),
        ({"name": "get_order", "arguments": "1"}, None),
        ({"name": "get_order", "arguments": "{"}, None),
        ({"name": "get_order", "id": 1}, None),
        ({"name": "call_tool", "arguments": {}}, None),
        ({"name": 1}, None),
        ({}, None),
        (None, None),
    ],
)
def test_a_call_of_call_tool_means_another(arguments, meant):
    """What fits is the call of the tool that it names; anything else stays a call of `call_tool`, to fail as such."""
    assert router.unwrapped("call_tool", arguments) == meant
    assert router.unwrapped("get_order", arguments) is None


def test_native_has_a_search_where_the_model_loads_what_it_finds():
    """`native` puts the search in place of the lists, and is `meta` for other models and beside a tool of that name."""
    prompt, routed = router.offer_of(agent(router="native"), SHOP, 40, searches=True)
    assert (named(prompt), routed) == (["call_tool", "search_tools"], [*SHOP])
    own = (*SHOP, spec("search_tools"))
    for offer in (
        router.offer_of(agent(router="native"), SHOP, 40),
        router.offer_of(agent(router="native"), own, 40, searches=True),
        router.offer_of(agent(router="auto"), SHOP, 40, searches=True),
    ):
        assert named(offer.prompt) == list(ROUTER_TOOLS)


def test_a_search_finds_the_tools_that_fit_best():
    """Five unless more are asked for, the best first, with their definitions as text and as they are loaded."""
    text, tools = router.search(SHOP, "create an order")
    assert len(tools) == router.FOUND
    assert tools[0].name == "create_order"
    assert {tool.name for tool in tools[:2]} <= {f"{verb}_order" for verb in VERBS}
    head, *shown = text.splitlines()
    assert head.startswith("Tools that fit `create an order`, best first;")
    assert [msgspec.json.decode(line) for line in shown] == [msgspec.to_builtins(tool) for tool in tools]
    assert named(router.search(SHOP, "order", 2)[1]) == ["create_order", "delete_order"]


def test_a_search_takes_names_of_tools():
    """A tool that is named comes first, whatever else fits."""
    assert named(router.search(SHOP, "`update_refund`, get_stock", 2)[1]) == ["update_refund", "get_stock"]


def test_a_search_that_finds_nothing_shows_what_there_is():
    """The model reads the resources, and nothing is loaded."""
    assert router.search(SHOP, "zeppelin") == (router.listing(SHOP, "zeppelin"), ())


def test_what_a_search_finds_is_not_too_long():
    """Definitions that would be too long together are left out; the first is always there."""
    long = tuple(shop("order", verb, "word " * 5_000) for verb in VERBS)
    text, tools = router.search(long, "order")
    assert len(tools) == 1
    assert len(text) < router.MAX_SHOWN
