"""HTTP tools: a call, and what of its answer becomes the result."""

import asyncio
import codecs
import re
import socket
from collections.abc import Awaitable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import urljoin, urlsplit

from msgspec import structs

from agent_core.agents import ToolDefinition, ToolSpec, filled, secrets_in
from agent_core.clock import Clock
from agent_core.errors import NotFound
from agent_core.messages import Text
from agent_core.net.fetch import Bounds, Fetch, Fetched, FetchPort
from agent_core.net.targets import FetchFailed, FetchRefused, FetchUnreachable
from agent_core.net.tokens import ClientCredentials, ClientTokens, TokenFailed
from agent_core.secrets import Unreadable, scrubbed
from agent_core.tools.base import CallContext, Done, Outcome, Tool, ToolError, context_headers
from agent_core.tools.http_request import (
    READS,
    CheckUrl,
    HttpRequest,
    RequestConfig,
    RequestMaker,
    Unsendable,
    check,
    config_of,
    parameters_of,
)
from agent_core.tools.toolset import spec_of

_MARKUP = re.compile(
    r"<!--(?:-?>|.*?-->|.*)|<svg\b[^<>]*/>|<(?P<hidden>script|style|template|noscript|svg)\b(?:.*?</(?P=hidden)\b[^<>]*>?|.*)"
    r"|<(?P<end>/?)(?P<name>[a-z][a-z0-9]*)\b(?P<rest>[^<>]*)>|<[!?/a-z][^<>]*>",
    re.IGNORECASE | re.DOTALL,
)
"""Comments, elements that show nothing, and tags; what is found is never read twice, so that the time is linear."""
_HREF = re.compile(r"(?<![\w-])href\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))", re.IGNORECASE)
_ALT = re.compile(r"(?<![\w-])alt\s*=\s*(?:\"([^\"]*)\"|'([^']*)')", re.IGNORECASE)
_NO_PLACE = re.compile(r"#|(?!https?:|mailto:)[a-z][a-z0-9+.-]*:", re.IGNORECASE)
"""How addresses begin that lead to no other page."""
_LINES = re.compile(
    r"address|article|aside|blockquote|br|dd|div|dl|dt|fieldset|fig(caption|ure)|footer|form|h[1-6r]|header|li|main|nav|[ou]l"
    r"|option|p|pre|section|table|title|tr"
)
"""Elements that begin and end a line."""
_BEGINS = {"li": "- ", "td": " | ", "th": " | ", **{f"h{n}": "#" * n + " " for n in range(1, 7)}}
_IN_PRE = str.maketrans({"\n": "\ue000", " ": "\ue001", "\t": "\ue001"})
_AFTER_PRE = str.maketrans({"\ue000": "\n", "\ue001": " "})
"""Characters for private use hold the line ends and blanks of `<pre>` until the others are one."""
_SPACES = re.compile(r"[ \t\r\f\v\xa0]+")
_GAPS = re.compile(r" ?\n[ \n]*")


def page_text(html: str) -> str:
    """Return the text of a page: a line per block, `- ` before list items, `#` before headings, `[text](address)`."""
    text = "".join(_pieces(html))
    return _GAPS.sub("\n", _SPACES.sub(" ", text)).strip().translate(_AFTER_PRE)


def _pieces(html: str) -> Iterator[str]:
    end, links, is_code = 0, list[str](), False
    for match in _MARKUP.finditer(html):
        yield _words(html[end : match.start()], is_code=is_code)
        end = match.end()
        name = (match["name"] or "").lower()
        is_code = not match["end"] if name == "pre" else is_code
        if name == "a":
            yield _link(match, links)
        elif name == "img" and (alt := _ALT.search(match["rest"])):
            yield _words(alt[1] or alt[2] or "")
        else:
            yield "\n" if _LINES.fullmatch(name) else ""
            yield "" if match["end"] else _BEGINS.get(name, "")
    yield _words(html[end:], is_code=is_code)


def _link(match: re.Match[str], links: list[str]) -> str:
    """Return what stands for the begin or the end of a link; *links* are the addresses of those that are open."""
    if match["end"]:
        address = links.pop() if links else ""
        return f"]({address})" if address else ""
    href = _HREF.search(match["rest"])
    address = _words(next(filter(None, href.groups()), "")).strip() if href else ""
    links.append("" if _NO_PLACE.match(address) else address)
    return "[" if links[-1] else ""


def _words(text: str, *, is_code: bool = False) -> str:
    return unescape(text).translate(_IN_PRE) if is_code else unescape(text).replace("\n", " ")


SHOWN = 300
"""Characters of the answer that an error shows."""
_TEXTS = re.compile(r"text/|application/(.*\+)?(json|xml|yaml|x-yaml|x-ndjson|jsonl|javascript|graphql|x-www-form-)")
_CHARSETS = re.compile(
    r"utf-?8|utf-?(16|32)(-?(le|be))?|(us-)?ascii|(iso-?)?8859-\d+|iso-8859-\d+|latin-?1|windows-\d+|cp\d+"
    r"|shift[_-]jis|euc-(jp|kr)|gb(k|2312|18030)|big5|koi8-[ru]",
    re.IGNORECASE,
)
"""Encodings of the web; others of Python's are slow, or no encodings of text."""
_ANSWER_MARKUP = re.compile(r"<(script|style)\b(?:.*?</\1\b[^<>]*>?|.*)|<[^<>]*>", re.IGNORECASE | re.DOTALL)
"""Elements that show nothing, and tags; what is found is never read twice, so that the time is linear."""
_READ = 50_000
"""Characters of an answer in which the words of an error are looked for."""
_LATER = re.compile(r"\d{1,9}|\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", re.ASCII)
_OF_A_HEAD = ("content-type", "content-length", "last-modified", "etag", "location")


def is_ok(status: int, more: Collection[int]) -> bool:
    """Return whether an answer with *status* is one that the tool wants."""
    return 200 <= status < 300 or status in more  # noqa: PLR2004 - HTTP's own


def text_of(method: str, fetched: Fetched, secrets: Mapping[str, str], *, has_source: bool = False) -> str:
    """Return an answer as text: what is not text is described, an empty one named by its status.

    Of an HTML page it is the text, unless the tool *has_source*. Servers that name no type call all they send HTML: a
    page begins with `<`. *secrets* are masked in its source first, as a value may be spelled otherwise in its text.
    """
    if method == "HEAD":
        lines = [f"{name}: {fetched.headers[name]}" for name in _OF_A_HEAD if name in fetched.headers]
        return "\n".join((_status(fetched.status), *lines))
    if not fetched.body:
        return f"{_status(fetched.status)}, with an empty answer."
    text = _decoded(fetched)
    if text is None:
        kind = _kind(fetched.headers)[0] or "of no known type"
        return f"{_status(fetched.status)}. The answer is {kind}, {len(fetched.body):,} bytes; it is not shown."
    is_page = "html" in _kind(fetched.headers)[0] and text.lstrip("\ufeff \t\r\n").startswith("<") and not has_source
    return page_text(scrubbed(text, secrets)) if is_page else text


def error_of(method: str, fetched: Fetched, secrets: Mapping[str, str]) -> str:
    """Return what the model reads of an answer that is none it wants: the status, the host, the first words.

    *secrets* are masked before the words are cut: the half of one would not be found.
    """
    words = " ".join(_answer_words(fetched, secrets).split())
    again = fetched.headers.get("retry-after", "")
    later = f" (Retry-After: {again})" if _LATER.fullmatch(again) else ""
    detail = f": {words[:SHOWN]}" if words else "."
    return f"{_status(fetched.status)} from {method} {host_of(fetched.url)}{later}{detail}"


def host_of(url: str) -> str:
    """Return the host of *url*, and its port where it is written: the rest may be a secret."""
    return urlsplit(url).netloc.rpartition("@")[2]


def _answer_words(fetched: Fetched, secrets: Mapping[str, str]) -> str:
    # Twice as much is masked as is shown, so that no secret is cut.
    text = scrubbed((_decoded(fetched) or "")[: 2 * _READ], secrets)[:_READ]
    return _ANSWER_MARKUP.sub(" ", text) if "html" in _kind(fetched.headers)[0] else text


def _status(status: int) -> str:
    try:
        return f"HTTP {status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"HTTP {status}"


def _decoded(fetched: Fetched) -> str | None:
    """Return the body as text, by the encoding that it says it has; None when it is no text."""
    kind, charset = _kind(fetched.headers)
    body = fetched.body
    if not kind and (b"\0" in body[:1000] or not _is_utf8(body)):
        return None
    if kind and not _TEXTS.match(kind):
        return None
    named = _charset(charset)
    if body.startswith(codecs.BOM_UTF8):
        named = "utf-8-sig"
    return body.decode(named, "replace")


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _charset(name: str) -> str:
    if not _CHARSETS.fullmatch(name):
        return "utf-8"
    try:
        return codecs.lookup(name).name
    except LookupError:
        return "utf-8"


def _kind(headers: Mapping[str, str]) -> tuple[str, str]:
    """Return the media type and the charset of an answer, in lower case, either empty where it says none."""
    kind, _, rest = headers.get("content-type", "").lower().partition(";")
    match = re.search(r"charset\s*=\s*\"?([\w.:-]{1,40})", rest)
    return kind.strip()[:100], match[1] if match else ""


MAX_ANSWER = 5_000_000
"""Bytes of an answer; the model reads at most the tool's `result_limit`."""
RESULT_LIMIT = 10_000
"""Characters of an answer that the model reads at most; the whole is kept with the session."""
_LARGE = 10_000
"""Bytes of an answer from which on it is read in a thread."""
_REDIRECTS = 3
_IS_REDIRECT = (301, 302, 303, 307, 308)
_UNAUTHORIZED = 401
_MAY_BE_DONE = (302, 303)
"""The usual answers to a form that was taken: Post/Redirect/Get."""
_OF_A_GATEWAY = (502, 504)
"""The server that the gateway asked may have carried out the request."""
_UNSURE = "Whether it was carried out is not known; check before you repeat it."


class SecretSource(Protocol):
    """Gives secrets by their names; raises `NotFound`, and `Unreadable` for one that was sealed with another key."""

    def __call__(self, names: Collection[str], /) -> Awaitable[Mapping[str, str]]: ...


@dataclass(frozen=True, slots=True)
class HttpPorts:
    """What HTTP tools share: the fetch, the secrets, and the tokens of OAuth clients."""

    fetch: FetchPort
    secrets: SecretSource
    tokens: ClientTokens


@dataclass(frozen=True, slots=True)
class HttpTool:
    """A tool whose calls are requests."""

    spec: ToolSpec
    definition: ToolDefinition
    config: RequestConfig
    maker: RequestMaker
    ports: HttpPorts

    async def call(self, arguments: dict[str, Any], context: CallContext) -> Outcome:
        """Send the request; whatever goes wrong is a `ToolError` that names the status or the host, and no secret."""
        try:
            secrets = await self.ports.secrets(secrets_in([self.definition.config, self.definition.preset]))
        except (NotFound, Unreadable) as error:
            return ToolError(f"Not sent: {error}")
        credentials = self._credentials(secrets)
        all_secrets = {**secrets, **({"client credentials": credentials.client.basic} if credentials else {})}
        try:
            request = self.maker.made(arguments, secrets, self._headers(context))
            return await self._answered(request, credentials, all_secrets)
        except Unsendable as error:
            return ToolError(scrubbed(str(error), all_secrets))
        except TokenFailed as error:
            return ToolError(scrubbed(f"Not sent: {error}", all_secrets))
        except FetchFailed as error:
            return self._failed(error, all_secrets)

    def _headers(self, context: CallContext) -> dict[str, str]:
        headers = context_headers(self.definition.context, context)
        if self.spec.effect == "write" and self.config.idempotency_header is not None:
            headers[self.config.idempotency_header] = context.call
        return headers

    def _credentials(self, secrets: Mapping[str, str]) -> ClientCredentials | None:
        oauth = self.config.oauth
        if oauth is None:
            return None
        return ClientCredentials(
            token_url=oauth.token_url,
            client_id=filled(oauth.client_id, secrets),
            client_secret=filled(oauth.client_secret, secrets),
            scope=oauth.scope,
            audience=oauth.audience,
            auth=oauth.auth,
        )

    async def _answered(
        self, request: HttpRequest, credentials: ClientCredentials | None, secrets: Mapping[str, str]
    ) -> Outcome:
        """Return the outcome of *request*, with a token if it takes one; raises `FetchFailed`, `TokenFailed`."""
        if credentials is None:
            return await self._masked(await self._sent(request, {}), secrets)
        token = await self.ports.tokens.token(credentials)
        fetched = await self._sent(request, _bearer(token))
        if fetched.status == _UNAUTHORIZED:
            self.ports.tokens.drop(credentials, token)
            if self.spec.effect == "read" or self.spec.idempotent:
                token = await self.ports.tokens.token(credentials)
                fetched = await self._sent(request, _bearer(token))
        return await self._masked(fetched, {**secrets, "access token": token})

    async def _sent(self, request: HttpRequest, more: Mapping[str, str]) -> Fetched:
        """Return the answer; a read follows redirects within its origin, so that no other host sees anything of it."""
        url, headers = request.url, {**request.headers, **more}
        seconds = self.definition.timeout_s
        bounds = Bounds(seconds=seconds, first_byte=seconds, size=MAX_ANSWER)
        for _ in range(_REDIRECTS + 1):
            fetched = await self.ports.fetch(
                url, method=request.method, headers=headers, body=request.body, redirects=0, bounds=bounds
            )
            location = fetched.headers.get("location")
            if request.method not in READS or fetched.status not in _IS_REDIRECT or not location:
                return fetched
            url = _onward(url, location)
        raise FetchFailed(f"`{host_of(url)}` sends the request on again and again; {_REDIRECTS} redirects are enough.")

    async def _masked(self, fetched: Fetched, secrets: Mapping[str, str]) -> Outcome:
        if len(fetched.body) < _LARGE:
            return self._outcome(fetched, secrets)
        return await asyncio.to_thread(self._outcome, fetched, secrets)  # it may take a second

    def _outcome(self, fetched: Fetched, secrets: Mapping[str, str]) -> Outcome:
        method = self.config.method
        if is_ok(fetched.status, self.config.ok):
            text = text_of(method, fetched, secrets, has_source=self.config.html == "source")
            return Done((Text(scrubbed(text, secrets)),))
        if fetched.status in _IS_REDIRECT and fetched.headers.get("location"):
            return self._error(
                fetched.status,
                f"HTTP {fetched.status} from {method} {host_of(fetched.url)}: it sends the request on to another "
                "address, which is not followed with this method; its definition should name that address, "
                f"or {fetched.status} in `ok` if it means that all went well.",
            )
        return self._error(fetched.status, scrubbed(error_of(method, fetched, secrets), secrets))

    def _error(self, status: int, text: str) -> ToolError:
        """Return the error of an answer with *status*; of a write it may leave open whether it was carried out."""
        unsure = _MAY_BE_DONE if self.spec.idempotent else (*_MAY_BE_DONE, *_OF_A_GATEWAY)
        if self.spec.effect == "read" or status not in unsure:
            return ToolError(text)
        return ToolError(f"{text} {_UNSURE}", unknown=True)

    def _failed(self, error: FetchFailed, secrets: Mapping[str, str]) -> ToolError:
        text = scrubbed(f"{self.config.method} {host_of(self.config.url)} failed: {error}", secrets)
        unsent = isinstance(error, FetchRefused | FetchUnreachable)
        if self.spec.effect == "read" or unsent:
            return ToolError(text)
        return ToolError(f"{text} {_UNSURE}", unknown=True)


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _onward(url: str, location: str) -> str:
    """Return where a redirect of a read leads; raise `FetchRefused` unless that is the same origin."""
    try:
        onward = urljoin(url, location)
        same = _origin(onward) == _origin(url)
    except ValueError:
        raise FetchRefused(f"`{host_of(url)}` sends the request on to an address that cannot be read.") from None
    if not same:
        # Which one is not said: a secret would not be found in a host, whose letters are small.
        raise FetchRefused(
            f"`{host_of(url)}` sends the request on to another origin, which is not followed; "
            "the tool's definition should name the address that answers."
        )
    return onward


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname, parts.port or usual


_CONNECT_SECONDS = 5.0
_GRACE_SECONDS = 2.0
"""How much later than the request the call of a read ends, so that the model reads which host was slow."""


class HttpKind:
    """Makes HTTP tools; their requests go through *fetch*, their secrets come from *secrets*."""

    def __init__(self, fetch: Fetch, secrets: SecretSource, clock: Clock, check_url: CheckUrl | None = None) -> None:
        """*check_url* says which addresses a definition may have; None: what the guard of *fetch* lets through."""
        self._check_url = check_url or fetch.guard.check
        self._fetch, self._secrets, self.tokens = fetch, secrets, ClientTokens(fetch, clock)
        self._ports = HttpPorts(fetch, secrets, self.tokens)

    def check(self, definition: ToolDefinition) -> None:
        """Raise `InvalidInput`, with the path of the field, for what cannot work anywhere."""
        check(definition, config_of(definition.config), self._check_url)

    def tool(self, definition: ToolDefinition, _known: Mapping[str, Tool], /) -> Tool:
        """Return the tool of a checked *definition*."""
        config = config_of(definition.config)
        maker = RequestMaker.of(definition, config)
        spec = spec_of(definition, parameters=parameters_of(maker.url), effect=config.effect)
        spec = structs.replace(spec, result_limit=min(spec.result_limit, RESULT_LIMIT))
        if spec.effect == "read":
            spec = structs.replace(spec, timeout=spec.timeout + _GRACE_SECONDS)
        return HttpTool(spec, definition, config, maker, self._ports)

    async def faults(self, definition: ToolDefinition, /) -> Sequence[str]:
        """Return what keeps its calls from working now: secrets that are missing, addresses that do not answer."""
        config = config_of(definition.config)
        urls = [config.url, *([config.oauth.token_url] if config.oauth else [])]
        faults = await self._missing(secrets_in([definition.config, definition.preset]))
        faults += [fault for url in urls if (fault := await self._unreachable(url))]
        return faults

    async def _missing(self, names: Collection[str]) -> list[str]:
        faults: list[str] = []
        for name in sorted(names):
            try:
                await self._secrets((name,))
            except (NotFound, Unreadable) as error:
                faults.append(str(error))
        return faults

    async def _unreachable(self, url: str) -> str | None:
        """Return why no connection can be made to the host of *url*; nothing is sent."""
        where = urlsplit(url)
        guard, host = self._fetch.guard, f"`{where.netloc}`"
        try:
            target = guard.target(where.scheme, (where.hostname or "").lower(), where.port)
            async with asyncio.timeout(_CONNECT_SECONDS):
                loop = asyncio.get_running_loop()
                infos = await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
                guard.admit(target, [str(info[4][0]) for info in infos])
                _, writer = await asyncio.open_connection(str(infos[0][4][0]), target.port)
        except FetchRefused as error:
            return str(error)
        except TimeoutError:
            return f"{host} does not answer within {_CONNECT_SECONDS:g} s; is the address right?"
        except OSError as error:
            return f"{host} cannot be reached: {error.strerror or 'its name is not known'}."
        writer.close()
        return None
