"""The operator's page, the login with an API key, and the short tokens that the page calls `/v1` with."""

import socket
from typing import Annotated, Any, Literal, TypedDict
from urllib.parse import urlsplit

import structlog
from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, ConfigDict, SecretStr, StringConstraints
from starlette.responses import Response

from agent_core.errors import Forbidden, ParleyError
from app.api.body import BodyRoute
from app.api.deps import Services, Wired
from app.api.problems import problem, slowed
from app.api.wire import answer, rfc3339
from channels.web.demo import LOOPBACK, host_name, is_address, is_forwarded, is_near
from channels.web.identity import LOGIN_SECONDS, Principal
from channels.web.routes import STATIC, widget

PLACE = "/operator"
COOKIE = "parley_operator"
SCRIPT = "parley-operator.js"
POLICY = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; img-src 'self' data: blob:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Styles are adopted by the script, and forms are sent by it too: a page without its script sends no key anywhere."""
PAGE_HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}
_log = structlog.get_logger("parley.login")


class _CookiePlace(TypedDict):
    path: str
    httponly: bool
    secure: bool
    samesite: Literal["strict"]


class LoginBody(BaseModel):
    """What a person logs in with."""

    model_config = ConfigDict(extra="forbid", strict=True)
    key: Annotated[SecretStr, StringConstraints(min_length=1, max_length=500)]


async def known_host(request: Request, wired: Wired) -> None:
    """Refuse browsers of this machine that ask for a name which leads here from elsewhere (DNS rebinding).

    An address is no name that could lead elsewhere. Others reach a server by names that only its settings know: with
    PARLEY_HOSTS or PARLEY_PUBLIC_URL those decide, and without them a key is all that protects it from its network.
    """
    client = request.client.host if request.client else None
    if wired.is_named or not is_near(client) or is_forwarded(request.headers):
        return
    name = host_name(request.headers.get("host", "")) or ""
    if not (name in LOOPBACK or is_address(name) or name == socket.gethostname().lower()):
        raise Forbidden(
            "On this machine the operator's page answers as localhost, 127.0.0.1 or [::1]; PARLEY_HOSTS names others."
        )


async def same_site(request: Request) -> None:
    """Refuse what a page of another site sends; what sends neither header is no browser, or has no cookie of ours.

    Browsers name the site where the page came by https or is local, else the origin of what is posted.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    own = site == "same-origin" if site is not None else origin is None or _host(origin) == request.headers.get("host")
    if not own:
        raise Forbidden("The operator's page does not answer to other sites.")


router = APIRouter(include_in_schema=False, route_class=BodyRoute)
KnownHost = Depends(known_host)
SameSite = Depends(same_site)


@router.get(PLACE, dependencies=[KnownHost])
@router.get(f"{PLACE}/", dependencies=[KnownHost])
async def show_page() -> Response:
    """Return the page, which has nothing of anyone's: what it shows it asks for with a login."""
    text = (STATIC / "operator.html").read_text(encoding="utf-8")
    filled = text.replace("{{integrity}}", widget().files[SCRIPT].integrity)
    return Response(filled, 200, PAGE_HEADERS, "text/html")


@router.post(f"{PLACE}/login", dependencies=[KnownHost, SameSite])
async def log_in(request: Request, wired: Wired, body: LoginBody) -> Response:
    """Take an API key and set the cookie of a login with it, which holds no key."""
    made = wired.credentials.log_in(body.key.get_secret_value().strip())
    if made is None:
        again = wired.credentials.logins.fail(request.client.host if request.client else "unknown")
        return slowed(again) if again is not None else _refused("This is not a valid API key.")
    token, operator = made
    await _note(wired, operator, "login", 200)
    done = answer(_who(operator))
    done.set_cookie(COOKIE, token.text, max_age=LOGIN_SECONDS, **_about(request, wired))
    return done


@router.post(f"{PLACE}/token", dependencies=[KnownHost, SameSite])
async def make_token(request: Request, wired: Wired) -> Response:
    """Make a token of some minutes for the page of who is logged in; scripts may hold it, unlike the cookie."""
    current = wired.credentials.login(request.cookies.get(COOKIE, ""))
    if current is None:
        refused = _refused("Log in with an API key.")
        if COOKIE in request.cookies:
            refused.delete_cookie(COOKIE, **_about(request, wired))
        return refused
    login, operator = current
    token = wired.tokens.operator_of(login, operator.actor, operator.scopes)
    return answer({"token": token.text, "expires_at": rfc3339(1000 * token.expires), **_who(operator)})


@router.post(f"{PLACE}/logout", status_code=204, dependencies=[KnownHost, SameSite])
async def log_out(request: Request, wired: Wired) -> Response:
    """End the login: its tokens and streams end with it, in other tabs too."""
    current = wired.credentials.login(request.cookies.get(COOKIE, ""))
    if current is not None:
        await wired.credentials.revoke("token", current[0].id)
        await _note(wired, current[1], "logout", 204)
    done = Response(status_code=204)
    done.delete_cookie(COOKIE, **_about(request, wired))
    return done


def _host(origin: str) -> str:
    return urlsplit(origin).netloc


def _about(request: Request, wired: Services) -> _CookiePlace:
    """Return how a browser keeps the cookie: sent to this page alone, read by no script, over https where there is."""
    secure = wired.https or request.url.scheme == "https"
    return {"path": PLACE, "httponly": True, "secure": secure, "samesite": "strict"}


def _who(operator: Principal) -> dict[str, Any]:
    return {"actor": operator.actor, "scopes": sorted(operator.scopes)}


def _refused(detail: str) -> Response:
    return problem(401, detail, headers={"WWW-Authenticate": "Bearer"})


async def _note(wired: Services, operator: Principal, what: Literal["login", "logout"], status: int) -> None:
    """Put a login on the record of operations, under the id that revokes it."""
    route, about = f"POST {PLACE}/{what}", operator.token
    try:
        await wired.core.access.note(actor=operator.actor, route=route, about=about, result=status)
    except ParleyError as error:  # it was done: the log says that the record lacks it
        _log.error("operation.not_recorded", route=route, about=about, reason=str(error))
