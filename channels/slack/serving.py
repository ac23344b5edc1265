"""Slack is served: requests and sockets are heard, checked and taken in, for as long as the process runs."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus
from typing import Any, Literal, Protocol, TypeVar, cast
from urllib.parse import parse_qs, urlsplit
from urllib.request import proxy_bypass

import aiohttp
import structlog
from fastapi import APIRouter
from pydantic import SecretStr
from slack_bolt.adapter.fastapi.async_handler import AsyncSlackRequestHandler
from slack_bolt.adapter.socket_mode.async_handler import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.response import BoltResponse
from slack_sdk.signature import SignatureVerifier
from slack_sdk.web.async_client import AsyncWebClient
from starlette.requests import Request
from starlette.responses import Response

from agent_core.charts.draw import QuickChart
from agent_core.clock import Clock, SystemClock
from agent_core.core import Core
from agent_core.errors import NotFound, ParleyError
from agent_core.net.fetch import Fetch
from agent_core.traces import trace_of
from channels.ledger import Ledger
from channels.slack import intake
from channels.slack.api import BASE_URL, Json, SlackApi, SlackFailure, open_session
from channels.slack.cards import CardRows, Cards
from channels.slack.context import NotNow
from channels.slack.figures import ChartPorts
from channels.slack.forms import notice
from channels.slack.pace import Installation, Pacer, Workspaces
from channels.slack.people import People
from channels.slack.receive import Receiver
from channels.slack.settings import FORM, IN_SLACK, SHORT, UNSIGNED, is_in_slack, signature
from channels.slack.threads import Threads
from channels.spec import Records

_CODES = {400: "invalid_request", 401: "unauthorized", 500: "internal_error", 503: "unavailable"}
UNREADABLE = "The body is no payload of Slack's."
_KINDS = {"event": dict, "view": dict, "team": dict, "user": dict, "actions": list}
"""What Bolt and our own handlers take these fields to be; slash commands, whose fields differ, come as plain forms."""
_NEEDED = {"event_callback": "event", "block_actions": "actions"}
"""The field, by type of payload, without which Bolt cannot say what happened."""
_LATER = "That cannot be taken in just now; send the same again."


class Malformed(Exception):
    """A payload is not of Slack's form."""


def is_signed(verifier: SignatureVerifier, headers: Mapping[str, str], body: bytes) -> bool:
    """Return whether *body* is signed by Slack, not long ago; an odd header is no signature."""
    values = signature(headers)
    if values is None:
        return False
    try:
        return verifier.is_valid(body, *values)
    except UnicodeDecodeError:  # Slack signs text
        return False


def is_ssl_check(content_type: str, body: bytes) -> bool:
    """Return whether *body* is Slack's look at our certificate, which asks for nothing and is not signed."""
    if not content_type.startswith(FORM) or len(body) > SHORT:
        return False
    return parse_qs(body.decode(errors="replace"), max_num_fields=20).get("ssl_check") == ["1"]


def check_body(content_type: str, body: bytes) -> None:
    """Raise `Malformed` unless Bolt can read *body*: one object of JSON, or a form, whose payload is one."""
    try:
        text = body.decode()
        if content_type.startswith(FORM):
            form = parse_qs(text, keep_blank_values=True, max_num_fields=200)
            text = form["payload"][0] if "payload" in form else "{}"
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise Malformed(UNREADABLE) from None
    if not isinstance(value, dict) or not _is_payload(cast("Json", value)):
        raise Malformed(UNREADABLE)


def _is_payload(value: Json) -> bool:
    """Return whether the fields of *value* that Bolt looks into are of the types that it takes them to be."""
    if any(value.get(name) is not None and not isinstance(value[name], kind) for name, kind in _KINDS.items()):
        return False
    needed = _NEEDED.get(str(value.get("type")))
    if needed is not None and not value.get(needed):
        return False
    owners = (cast("Json", value.get(each) or {}) for each in ("team", "user"))
    return all(isinstance(each.get("id"), str | None) for each in owners)


def problem(status: int, detail: str = "") -> Response:
    """Return an error as every other surface of Parley does."""
    code, title = _CODES.get(status, "error"), HTTPStatus(status).phrase
    posted = detail or (_LATER if status == HTTPStatus.SERVICE_UNAVAILABLE else f"{title}; the log says more.")
    body: Json = {"type": "about:blank", "title": title, "status": status, "code": code, "detail": posted, "errors": []}
    return Response(json.dumps(body), status, media_type="application/problem+json")


PATHS = ("/slack/events", "/slack/interactivity", "/slack/commands")
PING = 5.0
"""Seconds between two signs of life on a socket; one that is deaf is left after two and a half times as many."""
STALE = 30.0
"""Seconds without a connection after which the address of the next one, which can be used once, is requested again."""
SETTLE = 3.0
"""Seconds that what is being taken in has at the end."""
RESPONSE_TIMEOUT = 1.0
"""Seconds for a reply through a shortcut's own address, before the shortcut is acknowledged."""
IDENTIFY_TIMEOUT = 1.0
"""Seconds in which Slack must say who this app is where something came in: it waits for three."""
AGAIN = "I cannot take that just now. Try again in a moment."
_BAD_REQUEST, _UNAUTHORIZED, _FAILED, _UNAVAILABLE = 400, 401, 500, 503
_log = structlog.get_logger("parley.slack")

Respond = Callable[..., Awaitable[Any]]
T = TypeVar("T")


class Listener:
    """Slack's deliveries for all workspaces of the app; what they ask for is done by *receiver*."""

    def __init__(
        self, receiver: Receiver, workspaces: Workspaces, *, signing_secret: str | None, api_url: str = BASE_URL
    ) -> None:
        self._receiver, self._workspaces, self._api_url = receiver, workspaces, api_url
        self._verifier = SignatureVerifier(signing_secret) if signing_secret else None
        self._taking: set[asyncio.Task[Any]] = set()
        self._identify_timeout = IDENTIFY_TIMEOUT
        self._app = AsyncApp(
            name="parley",
            logger=_quiet("parley.slack.bolt", logging.ERROR),
            client=_client(None, api_url),
            signing_secret=signing_secret or "",
            authorize=_authorize,
            # Its say() would read threads, and its other words are not those of Agent Sessions.
            attaching_conversation_kwargs_enabled=False,
            ignoring_self_events_enabled=False,
            process_before_response=True,
        )
        cast("Any", self._app).use(self._take)
        self._requests = AsyncSlackRequestHandler(self._app)

    def router(self) -> APIRouter:
        """Return the routes for Slack's requests; without a signing secret there are none."""
        router = APIRouter(include_in_schema=False)
        for path in PATHS if self._verifier else ():
            router.add_api_route(path, self.http, methods=["POST"])
        return router

    async def http(self, request: Request) -> Response:
        """Answer one request: 401 without Slack's signature, 503 when Slack is to send the same again."""
        body, content_type = await request.body(), request.headers.get("content-type", "")
        assert self._verifier is not None
        try:
            if not is_signed(self._verifier, request.headers, body):
                is_check = is_ssl_check(content_type, body)
                return Response() if is_check else problem(_UNAUTHORIZED, UNSIGNED)
            check_body(content_type, body)
            answer = await self._requests.handle(request)
        except (Malformed, ValueError, TypeError, AttributeError, KeyError) as error:  # Bolt's reading of odd bodies
            self._receiver.note("slack.malformed", error=type(error).__name__)
            return problem(_BAD_REQUEST, UNREADABLE)
        return answer if answer.status_code < _BAD_REQUEST else problem(answer.status_code)

    @asynccontextmanager
    async def socket(self, app_token: str, *, ping: float = PING) -> AsyncGenerator[None]:
        """Listen by Socket Mode for as long as the block lasts, whether or not Slack can be reached now."""
        client, logger = _client(app_token, self._api_url), _quiet("parley.slack.socket", logging.WARNING)
        handler = AsyncSocketModeHandler(self._app, app_token, logger=logger, web_client=client, ping_interval=ping)
        handler.client.proxy = client.proxy
        beside = [asyncio.create_task(handler.connect_async()), asyncio.create_task(_renew(handler))]
        try:
            yield
        finally:
            await self._settled()
            await _close(handler, beside)

    async def _settled(self) -> None:
        """Return once what came in is taken in, within bounds."""
        if self._taking:
            await asyncio.wait(self._taking, timeout=SETTLE)

    async def _take(self, body: dict[str, Any], respond: Respond) -> BoltResponse:
        """Take one payload in and acknowledge it; Bolt calls this last of its middleware."""
        task = asyncio.current_task()
        assert task is not None
        self._taking.add(task)
        try:
            posted = await self._dispatch(body)
        except NotFound as error:
            self._receiver.note("slack.not_ours", error=str(error))
            return BoltResponse(status=200, body="")
        except Malformed:
            self._receiver.note("slack.malformed", kind=str(body.get("type"))[:40])
            return BoltResponse(status=_BAD_REQUEST, body="")
        except ParleyError as error:
            _log.warning("slack.not_taken", error=str(error))
            if body.get("type") == "event_callback":  # Slack sends it again
                return BoltResponse(status=_UNAVAILABLE, body="")
            posted = AGAIN
        except Exception as error:  # noqa: BLE001 - the boundary: Slack may send it again, and the log says what is wrong
            _log.error("slack.failed", exception=trace_of(error))
            return BoltResponse(status=_FAILED, body="")
        finally:
            self._taking.discard(task)
        if posted is None:
            return BoltResponse(status=200, body="")
        return await _respond(posted, body, respond) if isinstance(posted, str) else _answered(posted)

    async def _dispatch(self, body: Json) -> str | Json | None:
        installation = await self._home(_read(intake.team_of, body))
        inbound = _read(intake.read, body, installation.me)
        if inbound is None or not await self._receiver.is_new(body):
            return None
        return await self._receiver.take(installation, inbound)

    async def _home(self, team: str) -> Installation:
        """Return who we are in *team*; raises `NotNow` when Slack does not say so in time: the same may come again."""
        try:
            async with asyncio.timeout(self._identify_timeout):
                return await self._workspaces.find(team)
        except TimeoutError:
            raise NotNow("Slack does not say in time who this app is.") from None


def _read(how: Callable[..., T], *arguments: Any) -> T:
    """Return what *how* reads in a payload; raises `Malformed` where that is not of Slack's form."""
    try:
        return how(*arguments)
    except (ValueError, TypeError, AttributeError, KeyError, IndexError) as error:
        raise Malformed(type(error).__name__) from error


async def _authorize(team_id: str | None, enterprise_id: str | None) -> AuthorizeResult:
    """Let everything by that Slack has signed: which workspace it is of is found later, and no token is needed."""
    return AuthorizeResult(enterprise_id=enterprise_id, team_id=team_id)


async def _respond(words: str, body: Json, respond: Respond) -> BoltResponse:
    """Acknowledge with *words* that only the person who asked reads, in the thread that they asked in."""
    if "command" in body:
        return _answered({"response_type": "ephemeral", "text": words})
    if body.get("type") == "view_submission":
        return _answered({"response_action": "update", "view": notice(words)})
    if body.get("response_url"):
        root = intake.part(body, "container").get("thread_ts")
        try:
            async with asyncio.timeout(RESPONSE_TIMEOUT):
                await respond(text=words, response_type="ephemeral", replace_original=False, thread_ts=root)
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            _log.info("slack.notice_failed", error=type(error).__name__)
    return BoltResponse(status=200, body="")


def _answered(posted: Json) -> BoltResponse:
    return BoltResponse(status=200, body=json.dumps(posted), headers={"content-type": "application/json"})


async def _renew(handler: AsyncSocketModeHandler) -> None:
    """Have a connection that cannot be made ask for another address: the SDK would try the old one for ever."""
    while True:
        await asyncio.sleep(STALE)
        if not await handler.client.is_connected():
            handler.client.wss_uri = None


async def _close(handler: AsyncSocketModeHandler, beside: list[asyncio.Task[None]]) -> None:
    """End a connection and all that the SDK has running for it."""
    for task in beside:
        task.cancel()
    await asyncio.gather(*beside, return_exceptions=True)
    client: Any = handler.client
    await handler.close_async()
    running = (client.message_processor, client.current_session_monitor, client.message_receiver)
    await asyncio.gather(*(each for each in running if each is not None), return_exceptions=True)


def _client(token: str | None, api_url: str) -> AsyncWebClient:
    """Return the SDK's client; unlike the SDK it heeds NO_PROXY."""
    client = AsyncWebClient(token, base_url=api_url, logger=_quiet("parley.slack.sdk", logging.INFO))
    if proxy_bypass(urlsplit(api_url).hostname or ""):
        client.proxy = None
    return client


def _quiet(name: str, level: int) -> logging.Logger:
    """Return a logger for a library that would write whole messages, and addresses that are good once, at DEBUG."""
    logger = logging.getLogger(name)
    if logger.level == logging.NOTSET:
        logger.setLevel(level)
    return logger


IDENTIFY_AGAIN = 15.0
"""Seconds between two attempts to ask Slack for our own identity."""
NO_AGENT = f"no agent is in Slack: put `{IN_SLACK}`, or the channels in which it answers, into an agent's file"


class SlackProcess(Protocol):
    """What Slack reads of the settings of the process; without a *slack_bot_token* it is not served."""

    @property
    def slack_bot_token(self) -> SecretStr | None: ...
    @property
    def slack_signing_secret(self) -> SecretStr | None: ...
    @property
    def slack_app_token(self) -> SecretStr | None: ...
    @property
    def slack_api_url(self) -> str: ...
    @property
    def chart_backend(self) -> Literal["local", "quickchart"]: ...
    @property
    def quickchart_url(self) -> str: ...
    @property
    def postgres(self) -> str | None:
        """The database that several processes share, None when this process is alone on its own."""
        ...

    @property
    def public_url(self) -> str | None:
        """The address that others reach this server by, None when it is not known."""
        ...


@asynccontextmanager
async def running_slack(
    core: Core, records: Records, settings: SlackProcess, *, socket: bool, clock: Clock | None = None
) -> AsyncGenerator[APIRouter]:
    """Serve Slack while the block lasts, and give the routes for its requests; with *socket* use Socket Mode too.

    *records* keeps the delivery ledger and the rows of the cards.
    """
    clock, url = clock or SystemClock(), f"{settings.slack_api_url}/"
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(open_session())
        api = SlackApi(_secret_value(settings.slack_bot_token) or "", session=session, base_url=url)
        pacer = Pacer(clock)
        workspaces = Workspaces([api], pacer)
        ledger, news = Ledger(records, clock, "slack"), asyncio.Event()
        charts = ChartPorts(core.drawer, await stack.enter_async_context(chart_links(settings)))
        threads = Threads(core, ledger, workspaces.space, clock, share=pacer.use, rested=news.set, charts=charts)
        rows = CardRows(records, clock)
        cards = Cards(core, rows, workspaces, clock, news=news, resumed=threads.resumed, public_url=settings.public_url)
        receiver = Receiver(core, threads, People(clock), clock, cards)
        listener = Listener(
            receiver, workspaces, signing_secret=_secret_value(settings.slack_signing_secret), api_url=url
        )
        await threads.start(alone=settings.postgres is None)
        stack.push_async_callback(threads.stop)
        await cards.start(alone=settings.postgres is None)
        stack.push_async_callback(cards.stop)
        stack.push_async_callback(receiver.close)
        await stack.enter_async_context(_identifying(workspaces, clock))
        if not any(is_in_slack(agent.definition) for agent in await core.agents.all()):
            _log.warning("slack.no_agent", remedy=NO_AGENT)
        if socket and (token := _secret_value(settings.slack_app_token)):
            await stack.enter_async_context(listener.socket(token))
        yield listener.router()


@asynccontextmanager
async def chart_links(settings: SlackProcess) -> AsyncGenerator[QuickChart | None]:
    """Give what links to pictures of charts, if the settings say so: their data goes to a third party then."""
    if settings.chart_backend != "quickchart":
        yield None
        return
    fetch = Fetch()
    try:
        yield QuickChart(settings.quickchart_url, fetch)
    finally:
        await fetch.close()


@asynccontextmanager
async def _identifying(workspaces: Workspaces, clock: Clock) -> AsyncGenerator[None]:
    """Ask Slack for our own identity, so that a wrong token is logged at the start and not with the first message."""
    identifying = asyncio.create_task(_identify(workspaces, clock))
    try:
        yield
    finally:
        identifying.cancel()
        await asyncio.wait((identifying,))


async def _identify(workspaces: Workspaces, clock: Clock) -> None:
    """Retry until Slack answers; handling a message could not wait that long."""
    logged: str | None = None
    while True:
        try:
            await workspaces.identify()
        except SlackFailure as error:
            if str(error) != logged:
                logged = str(error)
                _log.error("slack.not_met", error=logged)
            await clock.sleep(IDENTIFY_AGAIN)
        else:
            return


def _secret_value(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()
