"""The wires of the model server: what the limit asks on each, and which of its frames hold text."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Marks:
    """What a stream's frames of text have in them, its last frame, and one that repeats a whole text, if it counts."""

    delta: bytes
    end: bytes
    whole: bytes | None = None


@dataclass(frozen=True, slots=True)
class BenchWire:
    """One wire: *agent* answers on it with *model*; *body* is a request with a place for the question, as JSON."""

    agent: str
    model: str
    path: str
    body: bytes
    marks: Marks

    @property
    def provider(self) -> str:
        return self.model.partition(":")[0]


PARLEY = Marks(b"event: text.delta\n", b"event: run.completed\n", b"event: message.completed\n")
MESSAGES = BenchWire(
    agent="assistant",
    model="anthropic:claude-sonnet-5-5",
    path="/v1/messages",
    body=b'{"model":"claude-sonnet-5-5","max_tokens":32000,"stream":true,"messages":[{"role":"user","content":%b}]}',
    marks=Marks(b'"text_delta"', b"event: message_stop\n"),
)
RESPONSES = BenchWire(
    agent="responses",
    model="openai:gpt-6.1-sol",
    path="/v1/responses",
    body=b'{"model":"gpt-6.1-sol","stream":true,"store":false,"input":[{"role":"user","content":%b}]}',
    marks=Marks(b"event: response.output_text.delta\n", b"event: response.completed\n"),
)
CHAT = BenchWire(
    agent="chat",
    model="openai-compatible:some-model",
    path="/v1/chat/completions",
    body=(
        b'{"model":"some-model","stream":true,"stream_options":{"include_usage":true},'
        b'"messages":[{"role":"user","content":%b}]}'
    ),
    marks=Marks(b'"delta"', b"data: [DONE]"),
)
WIRES: Mapping[str, BenchWire] = {wire.agent: wire for wire in (MESSAGES, RESPONSES, CHAT)}
