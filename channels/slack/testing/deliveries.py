"""How the app is notified: signed requests or envelopes, with Slack's retries."""

import asyncio
import json
import secrets
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast
from urllib.parse import urlencode

import aiohttp
from slack_sdk.signature import SignatureVerifier

from agent_core import Clock
from channels.slack.testing import payloads
from channels.slack.testing.app import App
from channels.slack.testing.faults import Faults
from channels.slack.testing.sockets import NotAcknowledged, Sockets
from channels.slack.testing.world import Channel, Json, SimulatedWorkspace
from channels.slack.web_api import limits

DeliveryKind = Literal["events_api", "interactive", "slash_commands"]
_PATHS: Mapping[DeliveryKind, int] = {"events_api": 0, "interactive": 1, "slash_commands": 2}
_PAUSES = (limits.EVENT_RETRY_1.value, limits.EVENT_RETRY_2.value, limits.EVENT_RETRY_3.value)
_REDIRECTS = 2
_OK = range(200, 300)


@dataclass(slots=True, eq=False)
class Notification:
    """One notification of the app; *failures* are Slack's reasons, one per attempt that went wrong."""

    kind: DeliveryKind
    payload: Json
    failures: list[str] = field(default_factory=list[str])
    status: int | None = None
    acked: bool = False
    answer: Json = field(default_factory=dict[str, Any])
    _tried: asyncio.Event = field(default_factory=asyncio.Event)
    _over: asyncio.Event = field(default_factory=asyncio.Event)

    async def tried(self) -> "Notification":
        """Return once the app has acknowledged, or all that Slack tries at once has failed, or it is held back."""
        await self._tried.wait()
        return self

    async def finished(self) -> "Notification":
        """Return once the app has acknowledged or Slack has given up."""
        await self._over.wait()
        return self

    def pauses(self) -> None:
        self._tried.set()

    def ends(self) -> None:
        self._tried.set()
        self._over.set()

    @property
    def type(self) -> str:
        """Return the type of the event, or of the payload."""
        return str(self.payload.get("event", self.payload).get("type", self.kind))


class Courier:
    """Deliver to the app and keep what was delivered.

    Requests are signed with the time of *signed_at*, the machine's own unless a test turns that too: SDKs
    compare it with theirs.
    """

    def __init__(
        self,
        app: App,
        clock: Clock,
        faults: Faults,
        sockets: Sockets,
        *,
        changed: Callable[[], None],
        ack_within: float,
        signed_at: Callable[[], float],
    ) -> None:
        self.app = app
        self.sent: list[Notification] = []
        self._clock, self._faults, self._sockets = clock, faults, sockets
        self._changed, self._ack_within, self._signed_at = changed, ack_within, signed_at
        self._tasks: set[asyncio.Task[None]] = set()
        self._session: aiohttp.ClientSession | None = None
        self._held: list[asyncio.Event] = []

    def open(self) -> None:
        """Begin to deliver."""
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=self._ack_within))

    async def close(self) -> None:
        """End what is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    def subscribed(self, name: str) -> bool:
        return name in self.app.subscribed

    def event(self, workspace: SimulatedWorkspace, channel: Channel | None, event: Json) -> list[Notification]:
        """Send *event* if the app has subscribed to it and may see it."""
        if not self._wanted(workspace, channel, event):
            return []
        ids = f"Ev{secrets.token_hex(5).upper()}", self._clock.now() // 1000
        payload = payloads.envelope(workspace, channel, event, self.app.id, ids)
        again = self._faults.strike("duplicate", event["type"], workspace.id) is not None
        return [self._start("events_api", payload, workspace.id) for _ in range(2 if again else 1)]

    def interaction(self, payload: Json, workspace: str, kind: DeliveryKind = "interactive") -> Notification:
        """Send a click, a command, a shortcut or a view; Slack does not repeat these."""
        return self._start(kind, payload, workspace)

    def _wanted(self, workspace: SimulatedWorkspace, channel: Channel | None, event: Json) -> bool:
        name = event["type"]
        if name == "app_mention":
            return self.subscribed(name) and "app_mentions:read" in workspace.scopes
        if name != "message" or channel is None:
            return self.subscribed(name)
        plural = {"channel": "channels", "group": "groups"}.get(channel.kind, channel.kind)
        inside = workspace.bot.id in channel.members
        return inside and self.subscribed(f"message.{plural}") and f"{plural}:history" in workspace.scopes

    def _start(self, kind: DeliveryKind, payload: Json, workspace: str) -> Notification:
        delivery = Notification(kind, payload)
        self.sent.append(delivery)
        self.run(self._deliver(delivery, workspace))
        return delivery

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Do *work* beside everything else, until the end of the stand-in."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _deliver(self, delivery: Notification, workspace: str) -> None:
        try:
            await self._hold(delivery, workspace)
            for attempt in range(1 + (len(_PAUSES) if delivery.kind == "events_api" else 0)):
                if attempt and (pause := _PAUSES[attempt - 1]):
                    delivery.pauses()
                    await self._clock.sleep(pause)
                over = await self._attempt(delivery, attempt)
                self._changed()
                if over:
                    break
        finally:
            delivery.ends()
            self._changed()

    async def _hold(self, delivery: Notification, workspace: str) -> None:
        """Hold a delivery back that is to be late, or until the next one is through; let go of the one before."""
        if fault := self._faults.strike("late", delivery.type, workspace):
            delivery.pauses()
            await self._clock.sleep(fault.seconds)
        elif self._faults.strike("out_of_order", delivery.type, workspace):
            delivery.pauses()
            self._held.append(through := asyncio.Event())
            await through.wait()
        elif self._held:
            waiting, self._held = self._held, []
            self.run(_release(waiting, delivery))

    async def _attempt(self, delivery: Notification, attempt: int) -> bool:
        """Try once; return whether that was the last try."""
        reason = delivery.failures[-1] if delivery.failures else ""
        try:
            if self.app.socket_mode:
                delivery.answer = await self._sockets.send(delivery.kind, delivery.payload, attempt, reason)
            else:
                await self._request(delivery, attempt, reason)
        except NotAcknowledged as error:
            delivery.failures.append(str(error))
            return bool(delivery.answer.get("no_retry"))
        delivery.acked = True
        return True

    async def _request(self, delivery: Notification, attempt: int, reason: str) -> None:
        if self._session is None or self.app.url is None:
            raise NotAcknowledged("connection_failed")
        content_type, body = _encoded(delivery)
        url = f"{self.app.url.rstrip('/')}{self.app.paths[_PATHS[delivery.kind]]}"
        headers = self._signed(body) | {"Content-Type": content_type}
        if attempt:
            headers |= {"X-Slack-Retry-Num": str(attempt), "X-Slack-Retry-Reason": reason}
        try:
            async with self._session.post(url, data=body, headers=headers, max_redirects=_REDIRECTS) as response:
                delivery.status = response.status
                delivery.answer = _read(await response.text())
                stop = response.headers.get("X-Slack-No-Retry") == "1"
        except TimeoutError:
            raise NotAcknowledged("http_timeout") from None
        except aiohttp.TooManyRedirects:
            raise NotAcknowledged("too_many_redirects") from None
        except aiohttp.ClientError:
            raise NotAcknowledged("connection_failed") from None
        if delivery.status not in _OK:
            delivery.answer = {"no_retry": stop}
            raise NotAcknowledged("http_error")

    def _signed(self, body: str) -> dict[str, str]:
        timestamp = str(int(self._signed_at()))
        signature = SignatureVerifier(self.app.signing_secret).generate_signature(timestamp=timestamp, body=body)
        return {"X-Slack-Request-Timestamp": timestamp, "X-Slack-Signature": str(signature)}


async def _release(waiting: list[asyncio.Event], after: Notification) -> None:
    await after.tried()
    for each in waiting:
        each.set()


def _encoded(delivery: Notification) -> tuple[str, str]:
    form = "application/x-www-form-urlencoded"
    match delivery.kind:
        case "events_api":
            return "application/json", json.dumps(delivery.payload)
        case "interactive":
            return form, urlencode({"payload": json.dumps(delivery.payload)})
        case "slash_commands":
            return form, urlencode({name: value for name, value in delivery.payload.items() if value is not None})


def _read(text: str) -> Json:
    """Return the answer's JSON; plain text is what a command says back."""
    try:
        body: Any = json.loads(text) if text else {}
    except ValueError:
        return {"text": text}
    return cast("Json", body) if isinstance(body, dict) else {}


def machine_time() -> float:
    """Return the machine's own time in seconds."""
    return time.time()
