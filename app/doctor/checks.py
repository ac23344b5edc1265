"""`parley doctor`: checks what a deployment depends on, and prints a line with the remedy for each finding."""

import asyncio
import resource
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from agent_core import ConfigError, Definition, Drawer, DrawingFailed
from agent_core.agent.snapshot import OFF
from app.checks import Finding
from app.doctor.database import sqlite
from app.doctor.deployed import agents, agents_of, mcp_servers, own_tools, server, tool_files
from app.files import read_mcp_file
from app.models import ANTHROPIC_URL, OPENAI_URL
from app.own_tools import OwnTools
from app.printer import say
from app.serving.server import SPARE_FILES
from app.settings import Settings, check, load_settings, with_providers
from channels.slack.settings import IN_SLACK, is_in_slack

TIMEOUT = 10.0
"""Seconds for a provider, Slack or a QuickChart server to answer."""
_REFUSED = (401, 403)
_INSTALL = "put the manifest of `parley slack manifest` into the app's settings, and install the app again"
SAMPLE = {
    "data": {"values": [{"day": "Mon", "n": 2}, {"day": "Tue", "n": 5}]},
    "mark": "bar",
    "encoding": {"x": {"field": "day", "type": "nominal"}, "y": {"field": "n", "type": "quantitative"}},
}
_UNDRAWN = (
    "install the package `vl-convert-python` of this version's lock file; set no `ulimit -v`, as V8 reserves 50 GB of "
    "addresses that it never uses, and no `ulimit -d` below 1 GB; until then charts that no surface draws itself "
    "are shown as text"
)


def doctor(*, offline: bool, env_file: Path | None = Path(".env")) -> bool:
    """Print the findings, line by line; return whether none is a failure."""
    well = True
    for finding in examine(offline=offline, env_file=env_file):
        well = well and finding.level != "fail"
        say(str(finding))
    return well


def examine(*, offline: bool, env_file: Path | None) -> Iterator[Finding]:
    """Yield the findings one by one, none twice; without settings or a database there are fewer."""
    try:
        settings = load_settings(env_file, serving=False)
    except ConfigError as error:
        yield Finding("fail", "settings", str(error))
        return
    try:
        settings = with_providers(settings, env_file)
    except ConfigError as error:
        yield Finding("fail", "providers", str(error))
    texts = set[str]()
    for finding in _all(settings, offline=offline):
        if finding.text not in texts:
            texts.add(finding.text)
            yield finding


def _all(settings: Settings, *, offline: bool) -> Iterator[Finding]:
    own = OwnTools.of(settings)
    own.load()
    basics = chain([_settings(settings)], _zone(settings), edges(settings), _database(settings))
    yield from chain(basics, own_tools(own), tool_files(settings, own))
    made: Collection[Definition] | None = None
    try:
        filed = read_mcp_file(settings)
    except ConfigError as error:
        yield Finding("fail", "mcp", str(error))
        yield from mcp_servers(settings, ())
    else:
        yield from mcp_servers(settings, filed)
        found = agents_of(settings, own, filed)
        made = found.usable.values()
        yield from agents(settings, found)
    yield from server(settings)
    yield from _providers(settings, offline=offline)
    yield from slack(settings, made, offline=offline)
    yield from charts(settings, offline=offline)


def _settings(settings: Settings) -> Finding:
    try:
        check(settings)
    except ConfigError as error:
        return Finding("fail", "settings", str(error))
    where = "Postgres" if settings.postgres else "SQLite"
    return Finding("ok", "settings", f"{where}, agents in `{settings.agents}`, model {settings.default_model}")


def _zone(settings: Settings) -> Iterator[Finding]:
    """Report the time zone in which models learn the time, where it is not the default."""
    if settings.clock != Settings.model_fields["clock"].default:
        sentence = "models learn no time" if settings.clock == OFF else f"models learn the time of {settings.clock}"
        yield Finding("ok", "zone", f"{sentence}, where neither agent nor person has a zone of their own")


def edges(settings: Settings) -> Iterator[Finding]:
    """Yield what a stranger meets first."""
    yield _demo(settings)
    yield _proxies(settings)
    yield _clients(settings)


def _demo(settings: Settings) -> Finding:
    if not settings.demo:
        why = "PARLEY_DEMO is off" if settings.demo_page is False else f"{settings.fronted} lets others in"
        return Finding("ok", "demo", f"closed, as {why}")
    if settings.demo_password is not None:
        return Finding("ok", "demo", "open to those who know PARLEY_DEMO_PASSWORD")
    if settings.fronted is not None:
        return Finding("fail", "demo", f"open, and {settings.fronted} lets others in", "set PARLEY_DEMO_PASSWORD")
    remedy = "behind a proxy or tunnel set PARLEY_TRUSTED_PROXIES, PARLEY_HOSTS, or PARLEY_DEMO=off"
    return Finding("ok", "demo", "open to this machine alone", remedy)


def _proxies(settings: Settings) -> Finding:
    if settings.proxies:
        names = ", ".join(str(each) for each in settings.proxies)
        text = f"{names} are believed; " + (f"answers to {', '.join(settings.hosts)}" if settings.hosts else "any host")
        return Finding("ok", "proxies", text, "" if settings.hosts else "PARLEY_HOSTS names those to answer to")
    if settings.public_url is not None:
        remedy = "if one is in front, name it in PARLEY_TRUSTED_PROXIES: else all its callers are one address"
        return Finding("warn", "proxies", "PARLEY_PUBLIC_URL is set, and no proxy is believed", remedy)
    remedy = "" if settings.loopback else "if one is in front, name it in PARLEY_TRUSTED_PROXIES"
    return Finding("ok", "proxies", "none are believed: a caller's address is that of its connection", remedy)


def _clients(settings: Settings) -> Finding:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    text = f"at most {settings.connections} at once, {settings.connections_per_address} of one address"
    if hard != resource.RLIM_INFINITY and hard < settings.connections + SPARE_FILES:
        return Finding("warn", "clients", f"{text}, but this system allows {hard} open files", "raise `ulimit -Hn`")
    return Finding("ok", "clients", text)


def _database(settings: Settings) -> Iterator[Finding]:
    """Check the database and what depends on it."""
    try:
        if settings.postgres is not None:
            from app.doctor.postgres import postgres  # noqa: PLC0415 - the driver takes its time, SQLite needs none

            yield from postgres(settings, settings.postgres)
        else:
            yield from sqlite(settings)
    except ConfigError as error:
        yield Finding("fail", "database", str(error))


@dataclass(frozen=True, slots=True)
class _Request:
    """What asks a provider for its models, the smallest thing that a key is needed for."""

    url: str
    headers: dict[str, str]
    key: str


def _providers(settings: Settings, *, offline: bool) -> Iterator[Finding]:
    wanted = dict(_requests(settings))
    if not wanted:
        text = "no key is set: `demo` answers, which is a script"
        yield Finding("warn", "providers", text, "set ANTHROPIC_API_KEY or OPENAI_API_KEY")
    for name, endpoint in settings.named.items():
        if endpoint.lacks:
            yield Finding("warn", name, f"it cannot be asked without {endpoint.lacks}", "set it, or take the entry out")
    for name, request in wanted.items():
        if offline:
            yield Finding("ok", name, f"{request.key} is set; not asked")
        else:
            yield _provider(name, request)


def _requests(settings: Settings) -> Iterator[tuple[str, _Request]]:
    """Give what to ask of each provider that is set up, and each server of the environment's once."""
    for name, endpoint in settings.endpoints.items():
        if name == "openai-compatible" and "openai" in settings.endpoints and name not in settings.named:
            continue
        key = endpoint.key.get_secret_value() if endpoint.key else None
        headers = {each: value.get_secret_value() for each, value in endpoint.headers.items()}
        query = {each: value.get_secret_value() for each, value in endpoint.query.items()}
        if endpoint.kind == "anthropic":
            auth = {"anthropic-version": "2023-06-01", **({"x-api-key": key} if key else {})}
            url, query = f"{endpoint.base_url or ANTHROPIC_URL}/v1/models", {"limit": "1", **query}
        else:
            auth = {"Authorization": f"Bearer {key}"} if key else {}
            url = f"{endpoint.base_url or OPENAI_URL}/models"
        shown = "openai" if name == "openai-compatible" and name not in settings.named else name
        yield shown, _Request(str(httpx.URL(url, params=query) if query else url), {**auth, **headers}, endpoint.needs)


def _provider(name: str, request: _Request) -> Finding:
    host, began = httpx.URL(request.url).host, time.perf_counter()
    try:
        status = httpx.get(request.url, headers=request.headers, timeout=TIMEOUT).status_code
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        remedy = "check the network, the proxy and the address"
        return Finding("fail", name, f"{host} cannot be reached ({type(error).__name__})", remedy)
    text = f"{host} answered {status} in {(time.perf_counter() - began) * 1000:.0f} ms"
    if status in _REFUSED:
        return Finding("fail", name, text, f"it does not take {request.key}: set a valid one")
    if status >= httpx.codes.BAD_REQUEST:
        return Finding("warn", name, text, "it is reached, but does not list its models")
    return Finding("ok", name, text)


def slack(settings: Settings, agents: Collection[Definition] | None, *, offline: bool) -> Iterator[Finding]:
    """Look for one of *agents* that is in Slack, and ask Slack who the bot token is of and which scopes it has.

    Without a token there is nothing to find.
    """
    if settings.slack_bot_token is None:
        return
    if agents is not None and not any(map(is_in_slack, agents)):
        text = "no agent is in Slack: who calls the bot reads that no agent answers"
        yield Finding("warn", "slack", text, f"put `{IN_SLACK}` into an agent's file, or set it over HTTP")
    if offline:
        yield Finding("ok", "slack", "SLACK_BOT_TOKEN is set; not asked")
        return
    headers = {"Authorization": f"Bearer {settings.slack_bot_token.get_secret_value()}"}
    try:
        answer = httpx.post(f"{settings.slack_api_url}/auth.test", headers=headers, timeout=TIMEOUT)
        reply = answer.json()
        well = bool(reply["ok"])
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError) as error:
        text = f"{settings.slack_api_url} gives no answer of Slack's ({type(error).__name__})"
        yield Finding("fail", "slack", text, "check the network, the proxy and SLACK_API_URL")
        return
    if not well:
        text = f"Slack does not accept SLACK_BOT_TOKEN ({str(reply.get('error'))[:100]})"
        yield Finding("fail", "slack", text, "install the app again, and set the token that it gives")
        return
    yield _scopes(str(reply.get("team") or reply.get("team_id")), answer.headers.get("x-oauth-scopes"))


def _scopes(team: str, granted: str | None) -> Finding:
    from channels.slack.manifest import OPTIONAL, SCOPES  # noqa: PLC0415 - it brings the SDK, only for those who use Slack

    place = f"the app is in the workspace {team}"
    if granted is None:
        return Finding("warn", "slack", f"{place}; Slack does not say what it may do there")
    held = {scope.strip() for scope in granted.split(",")}
    missing = [scope for scope in SCOPES if scope not in held]
    if needed := [scope for scope in missing if scope not in OPTIONAL]:
        return Finding("warn", "slack", f"{place} without {', '.join(needed)}", _INSTALL)
    if missing:
        without = "; ".join(dict.fromkeys(OPTIONAL[scope] for scope in missing))
        text = f"{place} without {', '.join(missing)}: {without}"
        return Finding("warn", "slack", text, f"{_INSTALL}, or leave it if that is not needed")
    return Finding("ok", "slack", f"{place}, with all its scopes")


def charts(settings: Settings, *, offline: bool) -> Iterator[Finding]:
    """Start the drawing process and draw a chart; ask the server of QUICKCHART_URL where charts are sent to it."""
    yield _drawn()
    if settings.chart_backend == "quickchart":
        yield _sent(settings, offline=offline)


def _drawn() -> Finding:
    began = time.perf_counter()
    try:
        picture = asyncio.run(_draw())
    except DrawingFailed as error:
        return Finding("fail", "charts", f"no chart can be drawn here: {error}", _UNDRAWN)
    duration = (time.perf_counter() - began) * 1000
    return Finding("ok", "charts", f"drawn on this machine, the first of {len(picture):,} bytes in {duration:.0f} ms")


async def _draw() -> bytes:
    drawer = Drawer()
    try:
        return await drawer.png(SAMPLE)
    finally:
        await drawer.close()


def _sent(settings: Settings, *, offline: bool) -> Finding:
    """Report who is sent the data of charts; asked is only whether the server is there."""
    host = urlsplit(settings.quickchart_url).hostname
    text = f"Slack's pictures of charts are links to {host}, which is sent their data"
    if offline:
        return Finding("ok", "quickchart", f"{text}; not asked")
    try:
        status = httpx.get(f"{settings.quickchart_url}/healthcheck", timeout=TIMEOUT).status_code
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        remedy = "correct QUICKCHART_URL, or set CHART_BACKEND=local"
        return Finding("fail", "quickchart", f"{host} cannot be reached ({type(error).__name__})", remedy)
    if status >= httpx.codes.BAD_REQUEST:
        return Finding("warn", "quickchart", f"{host} answered {status}", "check that it is a QuickChart server")
    return Finding("ok", "quickchart", text)
