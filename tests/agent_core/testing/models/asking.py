"""Asking the fake models over plain HTTP, each wire with its own smallest request."""

import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp

from agent_core.testing.models import FakeModels

WIRES = ("messages", "responses", "chat")
PATHS = {"messages": "/v1/messages", "responses": "/v1/responses", "chat": "/v1/chat/completions"}
MODELS = {"messages": "claude-opus-5-5", "responses": "gpt-6.1-sol", "chat": "llama"}
VERSION = {"anthropic-version": "2026-10-21"}


def user(text, wire="messages"):
    """Return the smallest request of *wire* that says *text*."""
    messages = [{"role": "user", "content": text}]
    if wire == "responses":
        return {"model": MODELS[wire], "input": messages}
    more = {"max_tokens": 1000} if wire == "messages" else {}
    return {"model": MODELS[wire], "messages": messages, **more}


@dataclass
class Reply:
    status: int
    headers: dict
    text: str

    @property
    def json(self):
        return json.loads(self.text)

    @property
    def said(self):
        """The text of an error, whichever the wire."""
        return self.json["error"]["message"]

    @property
    def events(self):
        """The data of the stream's events."""
        data = [line[6:] for line in self.text.split("\n") if line.startswith("data: ")]
        return [json.loads(each) for each in data if each != "[DONE]"]


@dataclass
class ModelsClient:
    """A client of one server of fake models."""

    fake: FakeModels
    http: aiohttp.ClientSession
    headers: dict = field(default_factory=lambda: {"authorization": "Bearer key", **VERSION})

    def post(self, body, wire="messages", *, path=None, headers=None):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = self.headers if headers is None else headers
        return self.http.post(self.fake.url + (path or PATHS[wire]), data=data, headers=given)

    async def ask(self, body, wire="messages", **options) -> Reply:
        if isinstance(body, str):
            body = user(body, wire)
        async with self.post(body, wire, **options) as response:
            headers = {key.lower(): value for key, value in response.headers.items()}
            return Reply(response.status, headers, await response.text())

    async def stream(self, body, wire="messages", **options) -> Reply:
        if isinstance(body, str):
            body = user(body, wire)
        return await self.ask({**body, "stream": True}, wire, **options)


@asynccontextmanager
async def asking(script, **options):
    """Serve *script* and yield a client of it."""
    async with FakeModels(script, **options) as fake, aiohttp.ClientSession() as http:
        yield ModelsClient(fake, http)


@asynccontextmanager
async def streaming(script, wire, **options):
    """Serve *script* and give the first answer's stream, to be read bit by bit."""
    async with asking(script, **options) as asker, asker.post({**user("hi", wire), "stream": True}, wire) as response:
        yield response
