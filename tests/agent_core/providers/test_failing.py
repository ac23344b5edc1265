"""Failures of model calls: their kind by what servers say, the wait they ask for, and what the operator reads."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

from agent_core.messages import KINDS, explanation
from agent_core.providers.failing import (
    MAX_SAID,
    RETRYABLE,
    classify,
    failed,
    in_stream,
    printable,
    refused,
    said_in,
    wait_of,
)
from tests.agent_core.providers.stale import STALE_TEXTS
from tests.cases import for_each

SAID = {
    (400, "invalid_request_error", "prompt is too long: 1012345 tokens > 1000000 maximum"): "context_overflow",
    (400, "context_length_exceeded", "Your input exceeds the context window of this model."): "context_overflow",
    (400, "BadRequestError", "This model's maximum context length is 4096 tokens."): "context_overflow",
    (
        400,
        None,
        "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
    ): "context_overflow",
    (400, None, "prompt too long; exceeded max context length by 3 tokens"): "context_overflow",
    (400, None, "input length exceeds the context length"): "context_overflow",
    (
        400,
        "INVALID_ARGUMENT",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    ): "context_overflow",
    (400, "exceed_context_size_error", "the request exceeds the available context size"): "context_overflow",
    (413, "request_too_large", "Request exceeds the maximum size"): "context_overflow",
    (
        400,
        "Client specified an invalid argument",
        "This model's maximum prompt length is 131072 but the request contains 140003 tokens.",
    ): "context_overflow",
    (
        400,
        "invalid_request_error",
        "Invalid request: Your request exceeded model token limit: 8192",
    ): "context_overflow",
    (
        400,
        "invalid_parameter_error",
        "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]",
    ): "context_overflow",
    (400, "1261", "Prompt exceeds max length"): "context_overflow",
    (
        400,
        "BadRequestError 400",
        "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
    ): "context_overflow",
    (400, "bad_request_error", "invalid params, context window exceeds limit (2013)"): "context_overflow",
    (
        400,
        None,
        "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4090.",
    ): "context_overflow",
    (
        422,
        "validation",
        "Input validation error: `inputs` must have less than 1024 tokens. Given: 2000",
    ): "context_overflow",
    (
        422,
        "invalid_request_error",
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 4000 `inputs` tokens",
    ): "context_overflow",
    (
        400,
        "invalid_request_error array_above_max_length",
        "Invalid 'messages': array too long. Expected an array with maximum length 2048, but got one of length 2063.",
    ): "context_overflow",
    (
        400,
        "invalid_request_error array_above_max_length",
        "Invalid 'tools': array too long. Expected an array with maximum length 128, but got one of length 130.",
    ): "invalid",
    (
        413,
        "tokens rate_limit_exceeded",
        "Request too large for model `x` in organization on tokens per minute (TPM): Limit 6000, Requested 7000",
    ): "context_overflow",
    (
        429,
        "tokens rate_limit_exceeded",
        "Request too large for gpt-x on tokens per min (TPM): Limit 30000, Requested 40000.",
    ): "context_overflow",
    (None, "rate_limit_exceeded", "Request too large for gpt-x on tokens per min (TPM)"): "context_overflow",
    (429, "rate_limit_exceeded", "Rate limit reached: your last request too large"): "rate_limited",
    (429, "insufficient_quota", "You exceeded your current quota"): "quota",
    (400, "invalid_request_error", "Your credit balance is too low to access the API."): "quota",
    (402, None, "Insufficient Balance"): "quota",
    (429, "rate_limit_exceeded", "Rate limit reached"): "rate_limited",
    (429, None, None): "rate_limited",
    (529, "overloaded_error", "Overloaded"): "overloaded",
    (503, "server_error", "Slow Down"): "overloaded",
    (None, "overloaded_error", "Overloaded"): "overloaded",
    (401, "invalid_request_error", "invalid_api_key"): "auth",
    (401, "authentication_error", "invalid x-api-key"): "auth",
    (403, "permission_error", "Your key may not use this model"): "auth",
    (403, "invalid_request_error", "Not allowed"): "auth",
    (404, "not_found_error", "model: claude-9"): "misconfigured",
    (404, None, 'model "x" not found, try pulling it first'): "misconfigured",
    (400, "unsupported_parameter", "Unsupported parameter: 'max_tokens'"): "misconfigured",
    (400, "invalid_request_error", "messages.0: odd"): "invalid",
    (400, None, None): "invalid",
    (422, None, "Unprocessable"): "invalid",
    (408, None, None): "error",
    (500, "api_error", "Internal server error"): "error",
    (502, None, "<html>Bad Gateway</html>"): "error",
    (504, "timeout_error", None): "error",
    (None, None, None): "error",
    (None, "server_error", None): "error",
    (400, "invalid_request_error", "Invalid `signature` in `thinking` block."): "stale_reasoning",
    (500, "invalid_request_error", "messages.0: odd"): "error",
    (500, None, "The engine is overloaded."): "overloaded",
    (500, "server_error", "It broke: prompt is too long"): "error",
    (400, "invalid_request_error", "messages.0: `overloaded` is no role"): "invalid",
    (400, None, "Do not say rate_limit_error, slow down or overloaded."): "invalid",
    (429, "rate_limit_error", "prompt is too long for your tier"): "rate_limited",
    (429, None, "prompt is too long for your tier"): "rate_limited",
    (429, None, "Your credit balance is too low."): "quota",
    (403, None, "You have reached your specified API usage limits."): "quota",
    (429, "engine_overloaded_error", "Busy"): "overloaded",
    (401, None, "rate_limit_error"): "auth",
    (401, "rate_limit_error", "No such key"): "auth",
    (None, None, "Overloaded"): "overloaded",
    (None, None, "An overloadedness of words"): "error",
    (400, "invalid_encrypted_content", "The encrypted content could not be verified."): "stale_reasoning",
    (400, "invalid_request_error tool_use_failed", "Failed to call a function. Please adjust your prompt."): "error",
    (400, "invalid_request_error", "Failed to call a function. See 'failed_generation' for more details."): "error",
    (None, "tool_use_failed", "tool call validation failed: parameters for tool look did not match schema"): "error",
    (400, None, "Missing `reasoning_content` field in the assistant message at message index 2."): "stale_reasoning",
    (
        400,
        "invalid_request_error",
        "Error from provider (DeepSeek): The `reasoning_content` in the thinking mode must be passed back to the API.",
    ): "stale_reasoning",
    (
        400,
        "INVALID_ARGUMENT 400",
        "Function call is missing a thought_signature in functionCall parts. This is required for tools to work.",
    ): "stale_reasoning",
    (400, "INVALID_ARGUMENT 400", "Thought signature is not valid."): "stale_reasoning",
    (
        400,
        "invalid_function_call 3280",
        "Tool call id was call_0fypS1hVX but must be a-z, A-Z, 0-9, with a length of 9.",
    ): "stale_reasoning",
    (400, None, "property 'messages.2.assistant.reasoning_content' is unsupported"): "stale_reasoning",
    (400, None, "'messages.2' : property 'reasoning' is unsupported"): "stale_reasoning",
    (400, None, "property 'messages.2.assistant.name' is unsupported"): "invalid",
    (403, "permission_error", "Your input was flagged as off limits"): "auth",
    (403, None, "Your chosen model requires moderation and your input was flagged"): "content_refused",
    (400, None, "The prompt violates your organization's content policy"): "content_refused",
    (400, None, "This organization has been disabled for breaking our usage policies"): "auth",
    (403, "access_terminated_error", "Access terminated due to violation of our usage policies"): "auth",
    (400, "invalid_request_error", "Your account was flagged for violating our usage policy."): "auth",
    (400, "rate_policy_exceeded", "Too fast."): "invalid",
    (404, None, "No endpoints found that support image input"): "file_refused",
    (404, "not_found_error", "model: claude-vision"): "misconfigured",
    (500, "server_error", "image input is not supported"): "file_refused",
}


def test_a_field_of_the_cache_in_a_picture_is_no_refused_picture():
    """The request is repeated without the field, and the picture stays."""
    text = "messages.0.content.1.image.cache_control: Extra inputs are not permitted"
    found = refused("p", 400, {"error": {"type": "invalid_request_error", "message": text}}, {})
    assert (found.kind, found.cache_unknown) == ("invalid", True)


OVERFLOW = "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576)."
LISTED = [{"error": {"code": 400, "message": OVERFLOW, "status": "INVALID_ARGUMENT"}}]


def test_an_error_in_a_list_reads_as_the_error():
    """Gemini's endpoint wraps its error in a list: it has its text and kind, in an answer and within a stream."""
    for failure in (refused("p", 400, LISTED, {}), in_stream("p", LISTED)):
        assert failure.kind == "context_overflow"
        assert "1200293" in failure.message
    assert refused("p", 400, LISTED, {}).message.startswith("`p` answered 400 INVALID_ARGUMENT: The input")
    assert said_in([]) == said_in([1]) == (None, None, None)


def test_the_faults_of_a_validation_are_read():
    """Servers with a schema list what they do not take, and where."""
    where = ["body", "messages", 1, "assistant", "reasoning_content"]
    fault = {"type": "extra_forbidden", "loc": where, "msg": "Extra inputs are not permitted", "input": "x"}
    failure = refused("p", 422, {"detail": [fault, "Odd"]}, {})
    assert "body.messages.1.assistant.reasoning_content: Extra inputs are not permitted; Odd" in failure.message
    assert failure.kind == "stale_reasoning"


def test_a_refusal_of_summaries_is_no_refusal_of_the_call():
    """An organization without summaries is asked again at once, without them."""
    text = "Your organization must be verified to generate reasoning summaries. Please go to: https://example.org"
    error = {
        "message": text,
        "type": "invalid_request_error",
        "param": "reasoning.summary",
        "code": "unsupported_value",
    }
    failure = refused("openai", 400, {"error": error}, {})
    assert (failure.kind, failure.retryable, failure.retry_after) == ("error", True, 0.0)
    assert failure.message.endswith("and the call is repeated.")
    other = {**error, "message": "Unsupported value: 'max' is not supported.", "param": "reasoning.effort"}
    assert refused("openai", 400, {"error": other}, {}).kind == "misconfigured"


@for_each("where", ["answer", "stream"])
def test_a_call_that_its_server_could_not_read_may_be_tried_again(where):
    """Groq refuses what its own model wrote: another try may go well, whatever the header says of requests."""
    error = {
        "message": "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.",
        "type": "invalid_request_error",
        "code": "tool_use_failed",
        "failed_generation": "<function=look{}</function>",
    }
    body, headers = {"error": error}, {"x-should-retry": "false"}
    failure = refused("groq", 400, body, headers) if where == "answer" else in_stream("groq", body)
    assert (failure.kind, failure.retryable) == ("error", True)
    assert failure.message.endswith("another model makes this rarer.")


REFUSED_THINKING = [
    *STALE_TEXTS,
    "messages.1.content.0.redacted_thinking.data: Field required",
    "Invalid 'data' in 'redacted_thinking' block",
    (
        "messages.47.content.0.type: Expected thinking or redacted_thinking, but found text. When thinking is enabled, "
        "a final assistant message must start with a thinking block."
    ),
]


@for_each("text", REFUSED_THINKING)
@for_each("status", [400, 422])
def test_every_refusal_of_thinking_is_recognized(status, text):
    """Each of the vendor's ways to refuse thinking that comes back is one that leaving it out repairs."""
    assert classify(status, "invalid_request_error", text) == "stale_reasoning"


def test_other_words_about_thinking_are_no_refusal_of_it():
    """What the request itself asks of thinking is not repaired by leaving earlier thinking out."""
    text = "Thinking may not be enabled when tool_choice forces tool use."
    assert classify(400, "invalid_request_error", text) == "invalid"


@for_each("said", SAID)
def test_a_failure_is_classified_by_words_then_status(said):
    """What a server says goes before its status, which many servers choose alike for different things."""
    assert classify(*said) == SAID[said]


@for_each("kind", KINDS)
def test_every_kind_has_a_remedy_and_words_for_the_person(kind):
    """The operator reads what to do, the person what it means to them, and neither the other's."""
    failure = failed(kind, "It broke.")
    assert failure.message.startswith("It broke. ")
    assert len(failure.message) > len("It broke. ") + 20
    assert failure.retryable == (kind in RETRYABLE)
    assert explanation(kind) not in failure.message
    assert "It broke" not in explanation(kind)


BODIES = [
    ({"type": "error", "error": {"type": "t", "message": "m"}, "request_id": "r"}, ("t", None, "m")),
    ({"error": {"message": "m", "type": "t", "param": None, "code": "c"}}, ("t", "c", "m")),
    ({"message": "m", "type": "t", "code": "c"}, ("t", "c", "m")),
    ({"error": {"message": "m", "code": 429}}, (None, "429", "m")),
    ({"error": {"type": "t", "message": "m", "details": {"error_code": "c"}}}, ("t", "c", "m")),
    ({"object": "error", "message": "m", "type": "t", "code": 400}, ("t", "400", "m")),
    ({"error": "m"}, (None, None, "m")),
    ({"detail": "m"}, (None, None, "m")),
    ({"error": {"message": {"odd": 1}, "type": "", "details": []}}, (None, None, None)),
    ({"error": None, "message": "m"}, (None, None, "m")),
    ({"error": ["m"]}, (None, None, None)),
    ("m", (None, None, "m")),
    ("", (None, None, None)),
    (None, (None, None, None)),
    ([1], (None, None, None)),
]


@for_each("body, said", BODIES)
def test_errors_are_read_in_every_shape(body, said):
    """Type, code and text are found where the vendors, gateways and small servers put them."""
    assert said_in(body) == said


def test_the_message_names_provider_request_and_answer():
    """A refused request names the provider, the status, what it said and its id for the vendor's support."""
    body = {"error": {"message": "No such model.", "type": "invalid_request_error", "code": "model_not_found"}}
    failure = refused("openai", 404, body, {"x-request-id": "req_7"})
    assert failure.kind == "misconfigured"
    start = "`openai` answered 404 invalid_request_error model_not_found: No such model. (request req_7). "
    assert failure.message.startswith(start)


def test_a_refusal_without_a_message_is_reported():
    """A server that only hangs a status out is quoted as having said nothing."""
    assert refused("x", 500, None, {}).message.startswith("`x` answered 500: no text. ")


@for_each("code, kind", [(429, "rate_limited"), ("503", "overloaded"), (400, "invalid"), (7, "error")])
def test_a_status_as_code_counts_in_a_stream(code, kind):
    """A gateway that has sent its 200 already gives the true status as the error's code."""
    assert in_stream("x", {"error": {"message": "Odd", "code": code}}).kind == kind


@for_each("asked, retryable", [("false", False), ("true", True), (None, True)])
def test_a_provider_may_forbid_another_try(asked, retryable):
    """A failure that would pass is not tried again when the provider says that it will not pass."""
    failure = refused("x", 529, None, {"x-should-retry": asked} if asked else {})
    assert (failure.kind, failure.retryable) == ("overloaded", retryable)


WAITS = {
    (("retry-after-ms", "1500"), ("retry-after", "9")): 1.5,
    (("retry-after", "9"),): 9.0,
    (("retry-after", "0.25"),): 0.25,
    (("retry-after-ms", "soon"), ("retry-after", "2")): 2.0,
    (("retry-after", "Mon, 01 Jan 2024 00:00:00 GMT"),): 0.0,
    (("retry-after", "soon"),): None,
    (("retry-after", "-3"),): None,
    (("retry-after", "inf"),): None,
    (("retry-after", "nan"),): None,
    (("retry-after", ""),): None,
    (): None,
}


@for_each("headers", WAITS)
def test_the_wait_is_read_from_the_headers(headers):
    """Milliseconds go before seconds, a date in the past is no wait, and nonsense is none that was asked for."""
    assert wait_of(dict(headers)) == WAITS[headers]


def test_a_wait_may_be_a_date():
    """A date is the time until then."""
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    wait = wait_of({"retry-after": date})
    assert wait is not None
    assert 80 < wait <= 90


@for_each(
    "said",
    [
        "Incorrect API key provided: sk-proj-abcDEF123456.",
        "Incorrect API key provided: sk-ant-ab***…xyz",
        "Authorization: Bearer abcdef123456",
        "key-abcdef123456 is unknown",
    ],
)
def test_what_looks_like_a_key_is_not_repeated(said):
    """Keys of any vendor's form are taken out of what a server says, and nothing of them is left."""
    found = printable(said)
    assert "[secret]" in found
    assert not any(piece in found for piece in ("abcdef", "abcDEF", "ab***", "123456", "xyz"))


def test_what_is_no_key_is_repeated():
    """Sentences about keys stay whole: the operator needs them."""
    said = "Incorrect API key provided; the key expired on 2026-01-01. Ask for a key in your organization."
    assert printable(said) == said


def test_a_long_text_is_short_and_on_one_line():
    """A page in the place of an error fills no log."""
    found = printable("<html>\n\n  <p>" + "x " * 4000)
    assert len(found) == MAX_SAID
    assert found.startswith("<html> <p>x x")
    assert found.endswith("…")
