"""The longest prompt of a model and the largest request, over plain HTTP."""

from agent_core.providers.failing import refused
from agent_core.testing import scripted
from agent_core.testing.models import Options
from tests.agent_core.testing.models.asking import MODELS, WIRES, asking
from tests.cases import for_each

SAID = {
    "messages": "prompt is too long: {tokens} tokens > {most} maximum",
    "responses": "Your input exceeds the context window of this model.",
    "chat": "This model's maximum context length is {most} tokens. However, your messages resulted in {tokens} tokens.",
}
ANSWER = [scripted.say("Hi.")]


def counted(reply, wire):
    """Return the tokens of the whole prompt, as the usage of an answer has them."""
    usage = reply.json["usage"]
    return usage.get("prompt_tokens", usage.get("input_tokens")) if wire != "messages" else usage["input_tokens"]


@for_each("wire", WIRES)
async def test_a_prompt_beyond_the_context_is_refused(wire):
    """A prompt that fills the context is answered; one token more is refused as the vendor does, and counts nothing."""
    text = "word " * 400
    async with asking([ANSWER]) as asker:
        tokens = counted(await asker.ask(text, wire), wire)
    for most in (tokens, tokens - 1):
        async with asking([ANSWER], options=Options(contexts={MODELS[wire]: most})) as asker:
            reply = await asker.ask(text, wire)
            again = await asker.ask("short", wire)
        assert reply.status == (200 if most == tokens else 400)
        assert again.status == (200 if most != tokens else 400)  # the script has one answer
    assert SAID[wire].format(tokens=tokens, most=tokens - 1) in reply.said
    assert refused("p", reply.status, reply.json, reply.headers).kind == "context_overflow"


@for_each("wire", WIRES)
async def test_a_context_is_one_models_or_the_others(wire):
    """The limit of a model is its own; the name "" is for those without one."""
    text = "word " * 400
    async with asking([ANSWER], options=Options(contexts={"": 10, MODELS[wire]: 100_000})) as asker:
        assert (await asker.ask(text, wire)).status == 200
        body = {"model": "another", "max_tokens": 100, "messages": [{"role": "user", "content": text}]}
        if wire == "responses":
            body = {"model": "another", "input": text}
        assert (await asker.ask(body, wire)).status == 400


@for_each("wire", WIRES)
async def test_a_request_of_too_many_bytes_is_refused(wire):
    """A request that is too large gets 413, which is an overflow too."""
    async with asking([ANSWER], options=Options(largest=1000)) as asker:
        reply = await asker.ask("x" * 1000, wire)
        assert (await asker.ask("x", wire)).status == 200
    assert reply.status == 413
    assert refused("p", reply.status, reply.json, reply.headers).kind == "context_overflow"
