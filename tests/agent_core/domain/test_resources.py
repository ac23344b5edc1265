"""What a tool is about: the mark of its server, the noun in its name, its server, its name."""

from agent_core.listings import canonical, resource_of
from tests.agent_core.history import spec
from tests.cases import for_each

NAMED = {
    "list_order": "order",
    "get_orders": "order",
    "orders_list": "order",
    "orders.create": "order",
    "getOrder": "order",
    "ListOrders": "order",
    "mcp__shop__get_order": "order",
    "mcp__shop__orders_update": "order",
    "get_order_by_id": "order",
    "get_order_status": "order",
    "list_all_orders": "order",
    "list_open_orders": "order",
    "batch_get_orders": "order",
    "list_order_items": "order_item",
    "comment_create": "comment",
    "create_comment": "comment",
    "book_list": "book",
    "book_room": "room",
    "list_companies": "company",
    "delete_address": "address",
    "get_boxes": "box",
    "search_people": "person",
    "get_weather_for_city": "weather",
    "mcp__git_hub__create_pull_request": "pull_request",
    "getHTTPStatus": "http",
    "github_list_issues": "issue",
    "slack_post_message": "message",
    "shop_get_order_by_id": "order",
    "mcp__hub__github_search_repositories": "repository",
    "shop_get_all": "shop_get_all",
    "mcp__shop__search": "shop",
    "mcp__shop__Ping": "shop",
    "mcp__Shops__weather": "shop",
    "search": "search",
    "weather": "weather",
    "stock_price": "stock_price",
    "mcp__shop": "mcp_shop",
    "_": "_",
}


@for_each("name, resource", NAMED.items())
def test_a_tool_is_about_the_noun_in_its_name(name: str, resource: str):
    """The noun after the verb, or before it; without a noun the server, without a server the name."""
    assert resource_of(spec(name)) == resource


def test_the_mark_of_the_server_is_taken_first():
    """A tool that says its resource has that one, in the form in which resources are compared."""
    assert resource_of(spec("get_order", resource="Sales Orders")) == "sales_order"
    assert resource_of(spec("get_order", resource="  ")) == "order"


def test_names_of_resources_are_compared_in_one_form():
    """Case, separators and the plural make no difference."""
    assert {canonical(name) for name in ("SalesOrders", "sales-order", "sales.orders", "SALES_ORDER")} == {
        "sales_order"
    }
