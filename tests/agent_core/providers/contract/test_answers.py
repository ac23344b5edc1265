"""One answer, three wires: what the model says reaches the loop in the same form."""

import pytest

from agent_core.messages import Usage
from agent_core.testing import call, cut, finish, raw_call, refuse, say, think, usage
from agent_core.testing.models import raw
from tests.agent_core.providers.contract.wires import CHAT, MESSAGES
from tests.cases import for_each

pytestmark = pytest.mark.sampled(3)


async def test_text_comes_in_one_part(ask):
    """Text that comes in pieces is one part, and the answer ends in order."""
    received = await ask([say("Hel", "lo, ", "wörld 🙂")])
    assert received.parts == (("text", "Hello, wörld 🙂"),)
    assert received.end == "done"


async def test_thinking_comes_before_the_text(ask):
    """What the model thinks is kept apart from what it says."""
    received = await ask([think("Hm", "m."), say("Yes.")])
    assert received.parts == (("thinking", "Hmm."), ("text", "Yes."))


async def test_parallel_calls_are_received_in_order(ask):
    """Several calls of one answer come with their own arguments and ids, in the model's order."""
    received = await ask([say("Looking."), call("look", what="a"), call("look", what="b"), call("list_all")])
    wanted = (("call", "look", {"what": "a"}), ("call", "look", {"what": "b"}), ("call", "list_all", {}))
    assert received.parts == (("text", "Looking."), *wanted)
    assert received.end == "tools"
    assert len(set(received.ids)) == 3
    assert all(received.ids)


@for_each("arguments", ["", "{}", "null", " "])
async def test_a_call_without_arguments_is_a_call(ask, arguments):
    """A tool that takes nothing may be called with no text, with `{}` or with `null`."""
    received = await ask([raw_call("list_all", arguments)])
    assert received.parts == (("call", "list_all", {}),)
    assert received.end == "tools"


@for_each("arguments", ['{"what": "a', '{"what": a}', "[1, 2]", '"text"', "{} {}", '{"what": NaN}'])
async def test_invalid_arguments_keep_their_raw_text(ask, arguments):
    """Truncated or invalid JSON never becomes arguments; its text is kept for the error that the model gets."""
    received = await ask([raw_call("look", arguments, cut=3)])
    assert received.parts == (("call", "look", None),)
    assert received.raw == (arguments,)


async def test_arguments_in_many_pieces_are_whole(ask):
    """Arguments that come a few characters at a time are put together."""
    received = await ask([raw_call("look", '{"what": "ä \\"quoted\\" \\u00e9 🙂"}', cut=17)])
    assert received.parts == (("call", "look", {"what": 'ä "quoted" é 🙂'}),)


async def test_a_refusal_after_text_is_a_refusal(ask):
    """A refusal that comes after some text withdraws it."""
    received = await ask([say("Well, "), refuse("I cannot.")])
    assert received.refused or received.end == "refused"


async def test_a_stop_that_says_refused_is_a_refusal(ask):
    """A model may refuse by its stop reason alone."""
    received = await ask([say("Well, "), finish("refused")])
    assert received.refused or received.end == "refused"


async def test_an_answer_that_reached_the_limit_says_so(ask):
    """An answer cut at the output limit ends as `length`."""
    received = await ask([say("One, two"), finish("length")])
    assert received.parts == (("text", "One, two"),)
    assert received.end == "length"


async def test_a_truncated_answer_ends_as_length_although_it_has_calls(ask):
    """A call in an answer that was cut at the output limit must not run."""
    received = await ask([call("look", what="a"), raw_call("look", '{"what": "b'), finish("length")])
    assert received.end == "length"


async def test_a_pause_asks_to_be_continued(dial):
    """`pause_turn` ends the answer as `continue`: the model continues it when it is sent back."""
    line = await dial(MESSAGES, [[say("Searching."), finish("continue")]])
    assert (await line.receive()).end == "continue"


async def test_usage_comes_with_the_end(ask, wire):
    """Tokens are counted apart: plain, from the cache, written; what a wire does not report is unknown."""
    received = await ask([say("Hi"), usage(input=100, output=20, cache_read=30)])
    assert received.usage is not None
    assert (received.usage.input, received.usage.output, received.usage.cache_read) == (100, 20, 30)


async def test_usage_that_is_missing_is_unknown(dial):
    """A server that counts nothing leaves the usage unknown, not zero."""
    body = b'data: {"id":"1","model":"m","choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\n'
    line = await dial(CHAT, [[raw(body + b"data: [DONE]\n\n")]])
    received = await line.receive()
    assert received.end == "done"
    assert received.usage in (None, Usage(None, None, None, None, None, None))


async def test_an_answer_that_breaks_off_is_no_answer(ask):
    """A stream that ends without its terminal event has failed, however whole it looks."""
    received = await ask([say("All is"), cut()])
    assert received.end == "network"
    assert received.failure is not None
    assert received.failure.retryable


async def test_blank_text_is_no_part(ask):
    """Empty and blank texts around a call are left out of what is kept and replayed."""
    received = await ask([say(""), say("  \n"), call("look", what="a")])
    assert received.parts == (("call", "look", {"what": "a"}),)
    assert [item for item in received.native if not ('"text":"' not in item or "call" in item)] == []


async def test_an_answer_with_nothing_in_it_ends_in_order(ask):
    """A model that says nothing at all has answered; the loop asks it again."""
    received = await ask([finish("done")])
    assert received.parts == ()
    assert received.end == "done"
