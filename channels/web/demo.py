"""Who may see the demo page: without a password the people at this very machine, else those who know it."""

import base64
import binascii
import hmac
import html
import ipaddress
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

import structlog
from starlette.requests import Request

from agent_core.errors import Forbidden, RateLimited
from channels.spec import default_agent
from channels.text import one_line

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "via")
"""Headers that proxies add: a request with one of them comes from further than its connection."""
FREE, WAIT = 5, 30
"""Wrong passwords of one place (`Door`) that are answered at once, and the seconds until the next may be tried."""
MAX_ADDRESSES = 1_000
_log = structlog.get_logger("parley.demo")


class Unauthorized(Exception):
    """A request for the demo page comes without its password."""


def host_name(host: str) -> str | None:
    """Return the name in a Host header, without its port; None when it is none."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def is_forwarded(headers: Mapping[str, str]) -> bool:
    """Return whether a proxy says that it passed the request on."""
    return any(name in headers for name in FORWARDED)


def is_address(name: str) -> bool:
    """Return whether *name*, of a Host header, is a network address: no name server decides where that leads."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_near(client: str | None) -> bool:
    """Return whether *client*, the address of a connection's peer, is this machine's own."""
    try:
        return ipaddress.ip_address(client or "").is_loopback
    except ValueError:
        return False


class Door:
    """Lets people to the demo page: with a *password* those who know it, else those at this machine.

    What counts is the connection's peer; a `Host` header is checked too, for names that lead here from elsewhere (DNS
    rebinding), and grants nothing. *now* returns seconds; *place_of* returns what an address is counted as.
    """

    def __init__(
        self,
        password: str | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
        place_of: Callable[[str], str] = str,
    ) -> None:
        self._password, self._now, self._place_of = password, now, place_of
        self._failed: dict[str, tuple[int, float]] = {}

    async def __call__(self, request: Request) -> None:
        """Raise `Forbidden`, `Unauthorized` or `RateLimited` for a request that may not see the page."""
        if request.headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}:
            raise Forbidden("The demo page does not answer to other sites.")
        client = request.client.host if request.client else None
        if self._password is not None:
            self._check(request.headers.get("authorization", ""), self._place_of(client or ""), self._password)
            return
        if not is_near(client) or is_forwarded(request.headers):
            raise Forbidden(
                "Without a password the demo page is open on this machine alone, and not through a proxy; "
                "PARLEY_DEMO_PASSWORD opens it to others."
            )
        if host_name(request.headers.get("host", "")) not in LOOPBACK:
            raise Forbidden("The demo page answers only as localhost, 127.0.0.1 or [::1].")

    def _check(self, header: str, place: str, password: str) -> None:
        count, last = self._failed.get(place, (0, 0.0))
        rest = last + WAIT - self._now()
        # Not even the right one passes before that: a password that people choose could be guessed at full speed.
        if count >= FREE and rest > 0:
            raise RateLimited(
                "Too many wrong passwords; try again in a moment.", max(1, int(rest)), limit="demo_password"
            )
        attempt = _password_of(header)
        if attempt is None:
            raise Unauthorized
        self._failed.pop(place, None)
        if not hmac.compare_digest(attempt, password.encode()):
            self._fail(place, count + 1 if rest > 0 else 1)
            raise Unauthorized

    def _fail(self, place: str, count: int) -> None:
        self._failed[place] = (count, self._now())
        if len(self._failed) > MAX_ADDRESSES:
            del self._failed[next(iter(self._failed))]
        _log.warning("demo_password.wrong" if count < FREE else "demo_password.slowed", address=place, failures=count)


def _password_of(header: str) -> bytes | None:
    """Return the password in an `Authorization: Basic` header, whatever the name in it; None without one."""
    scheme, _, text = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        return base64.b64decode(text.strip(), validate=True).partition(b":")[2]
    except (binascii.Error, ValueError):
        return b""


PAGE, TOKEN = "/widget-demo", "/widget-demo/token"
EXAMPLE = "name: assistant\ninstructions: Answer in one sentence."
_PLACE = re.compile(r"\{\{(\w+)\}\}")


@dataclass(frozen=True, slots=True)
class OfferedAgent:
    """An agent that the page can show, and what the page says about its model.

    *has_file*: it is an agent of the files as they are now, and not one whose file was renamed or deleted.
    *has_title*: it has a title of its own, which the widget asks for and shows.
    """

    id: str
    name: str
    notice: str
    has_file: bool = True
    has_title: bool = False

    @property
    def heading(self) -> str | None:
        """What stands above the conversation; None: the agent's own title."""
        return None if self.has_title else self.name[:1].upper() + self.name[1:]


@dataclass(frozen=True, slots=True)
class DemoPage:
    """What the page shows: all *agents*, the one that was *wanted* (None: the page chooses), and the *problems*.

    *watched*: the page asks again and again whether agents and problems have changed.
    """

    agents: Sequence[OfferedAgent]
    wanted: str | None
    problems: Sequence[str]
    watched: bool

    @property
    def shown(self) -> OfferedAgent | None:
        """The agent that answers; None when there is none, or none of the name or id that was wanted."""
        return choose(self.agents, self.wanted)

    def document(self, template: str) -> str:
        """Return *template* with its places in double braces filled."""
        shown = self.shown
        filled = {
            "watch": "on" if self.watched or shown is None else "off",
            "switcher": "" if len(self.agents) > 1 and shown else " hidden",
            "agents": "".join(_option(each, shown) for each in self.agents),
            "notice": html.escape(shown.notice if shown else ""),
            "clear": "" if self.problems else " hidden",
            "problems": "".join(f"<li>{html.escape(each)}</li>" for each in self.problems),
            "main": self._absent() if shown is None else _chat(shown),
            "states": html.escape(states_address(shown)),
        }
        return fill(template, filled)

    def _absent(self) -> str:
        """Return the sentence in the place of the conversation, and what to do."""
        if not self.agents:
            return (
                "<main><p>There is no agent yet. Save this as <code>assistant.yaml</code> in the folder of your agents "
                "(<code>PARLEY_AGENTS</code>, <code>./agents</code> when that is unset), then start Parley again; "
                "<code>parley dev</code> loads it at once.</p>"
                f"<pre>{html.escape(EXAMPLE)}</pre></main>"
            )
        wanted = html.escape(one_line(self.wanted or ""))
        links = [
            f'<a href="{html.escape(address(PAGE, each.name))}">{html.escape(each.name)}</a>' for each in self.agents
        ]
        listed = f"the only one is {links[0]}" if len(links) == 1 else f"choose {', '.join(links[:-1])} or {links[-1]}"
        return f"<main><p>There is no agent <code>{wanted}</code>; {listed}.</p></main>"


def fill(template: str, filled: Mapping[str, str]) -> str:
    """Return *template* with its places in double braces filled; what is filled in is not looked at again."""
    return _PLACE.sub(lambda place: filled[place[1]], template)


def choose(agents: Sequence[OfferedAgent], wanted: str | None) -> OfferedAgent | None:
    """Return the one of *agents* with the id or name *wanted*, or the one that answers when None is wanted."""
    if wanted is not None:
        return next((each for each in agents if wanted in (each.id, each.name)), None)
    name = default_agent((each.name, each.has_file) for each in agents)
    in_order = sorted(agents, key=lambda each: (each.name != name, not each.has_file))
    return in_order[0] if in_order else None


def address(path: str, agent: str) -> str:
    """Return *path* with *agent* in its query."""
    return f"{path}?{urlencode({'agent': agent})}"


def states_address(agent: OfferedAgent | None) -> str:
    """Return the address of the page of states, whose snippet embeds *agent*."""
    return f"{PAGE}?{urlencode({'show': 'states', **({'agent': agent.name} if agent else {})})}"


def _option(agent: OfferedAgent, shown: OfferedAgent | None) -> str:
    name, notice = html.escape(agent.name), html.escape(agent.notice)
    selected = " selected" if agent is shown else ""
    heading = f' data-heading="{html.escape(agent.heading)}"' if agent.heading else ""
    return f'<option value="{name}" data-notice="{notice}"{heading}{selected}>{name}</option>'


def _chat(agent: OfferedAgent) -> str:
    name, token = html.escape(agent.name), html.escape(address(TOKEN, agent.name))
    heading = f' heading="{html.escape(agent.heading)}"' if agent.heading else ""
    return f'<parley-chat agent="{name}" token-url="{token}"{heading}></parley-chat>'
