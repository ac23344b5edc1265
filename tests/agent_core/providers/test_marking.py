"""Which refusals say that a server does not know the fields of the prompt cache, or of the search for tools."""

from agent_core.providers.failing import refused
from tests.cases import for_each

UNKNOWN = (
    {"error": {"message": "system.0.cache_control: Extra inputs are not permitted"}},  # older gateways
    {"error": {"message": "Unrecognized request argument supplied: prompt_cache_key"}},  # Azure
    {"error": {"message": "Unknown parameter.", "param": "prompt_cache_key", "code": "unknown_parameter"}},
    {"error": {"message": "Unsupported parameter: 'prompt_cache_options' is not supported with this model."}},
    {"error": {"message": "property 'prompt_cache_key' is unsupported"}},  # Groq
    {"detail": [{"type": "extra_forbidden", "loc": ["body", "prompt_cache_key"], "msg": "Extra inputs are forbidden"}]},
    {"error": {"message": "Unknown name \"cache_control\" at 'contents[0]': Cannot find field."}},
    {"error": {"message": "unknown field `cache_control`, expected one of `name`, `description`, `input_schema`"}},
    {"message": "#: extraneous key [cache_control] is not permitted"},
    {"error": {"message": "This model does not support system.0.cache_control"}},
)
OTHERS = (
    "tools.3.custom.input_schema.properties.ttl: JSON schema is invalid",
    "messages.0.content.1.text: cache_control cannot be set for empty text blocks",
    "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    "tools.3.custom.input_schema.properties.cache_control: Extra inputs are not permitted",
    "Invalid schema for function 'save': In context=('properties', 'cache_control'), unknown key 'extra'",
    "system.1.cache_control.ttl: a ttl='1h' block must not come after a ttl='5m' block",
    "messages.0.colour: Extra inputs are not permitted; messages.1: a maximum of 4 blocks with cache_control",
    "Invalid 'prompt_cache_key': string too long. Unknown parameter: 'colour'.",
)


@for_each("body", UNKNOWN)
@for_each("status", [400, 422])
def test_a_field_that_a_server_does_not_know(status, body):
    """However servers word it, and in any of the shapes of their errors."""
    assert refused("gateway", status, body, {}).cache_unknown


@for_each("text", OTHERS)
def test_a_refusal_of_something_else(text):
    """Of a wrong use of the fields, of a tool's own parameter with such a name, of other fields beside them."""
    failed = refused("gateway", 400, {"error": {"type": "invalid_request_error", "message": text}}, {})
    assert (failed.kind, failed.cache_unknown, failed.retryable) == ("invalid", False, False)


@for_each(
    "said",
    [
        {"message": "tools.2.custom.defer_loading: Extra inputs are not permitted"},
        {"message": "Unknown parameter: 'tools[0].defer_loading'.", "code": "unknown_parameter"},
        {"message": "Tool 'tool_search' is not supported with gpt-4.1."},
    ],
)
def test_a_search_that_a_server_does_not_know(said):
    """It is no refusal of the fields of a cache, of which the server has said nothing."""
    failed = refused("gateway", 400, {"error": said}, {})
    assert (failed.search_unknown, failed.cache_unknown) == (True, False)
    assert not any(refused("gateway", 400, body, {}).search_unknown for body in UNKNOWN)
    assert not refused("gateway", 400, {"error": {"message": "tools: defer_loading on all tools"}}, {}).search_unknown


def test_only_a_refusal_of_the_request_counts():
    """Of a server's own error it says nothing that a gateway's log quotes the field."""
    assert not refused("gateway", 500, UNKNOWN[0], {}).cache_unknown
