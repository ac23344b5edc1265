"""An app that records what it receives, after Slack's SDK has verified the signature."""

import json
from dataclasses import dataclass
from typing import Any, Self

from aiohttp import web
from slack_sdk.signature import SignatureVerifier


@dataclass
class ReceivedRequest:
    path: str
    payload: dict[str, Any]
    retry: str | None
    reason: str | None

    @property
    def event(self) -> dict[str, Any]:
        return self.payload["event"]


class ScriptedListener:
    """Answer with *status*, or with the next of *answers* first."""

    def __init__(self, secret: str) -> None:
        self.received: list[ReceivedRequest] = []
        self.answers: list[web.Response] = []
        self.url = ""
        self._verifier = SignatureVerifier(secret)

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_post("/slack/{what}", self._receive)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    @property
    def events(self) -> list[dict[str, Any]]:
        return [each.event for each in self.received if "event" in each.payload]

    async def _receive(self, request: web.Request) -> web.Response:
        body = await request.text()
        if not self._verifier.is_valid_request(body, dict(request.headers)):
            return web.Response(status=401)
        if request.content_type == "application/json":
            payload = json.loads(body)
        else:
            form = dict(await request.post())
            payload = json.loads(str(form["payload"])) if "payload" in form else form
        headers = request.headers
        self.received.append(
            ReceivedRequest(
                request.path, payload, headers.get("X-Slack-Retry-Num"), headers.get("X-Slack-Retry-Reason")
            )
        )
        return self.answers.pop(0) if self.answers else web.Response()
