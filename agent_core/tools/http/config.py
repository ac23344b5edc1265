"""The `config` of an HTTP tool as its author writes it. Pure."""

from typing import Any, Literal

import msgspec

from agent_core.channels import misfit_in
from agent_core.errors import InvalidInput
from agent_core.net.tokens import ClientAuth

Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
BodyMode = Literal["json", "form", "query", "none"]
READS = ("GET", "HEAD")
_IN_QUERY = ("GET", "HEAD", "DELETE")
CONFIG = "config"


class OAuth(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """OAuth 2 client credentials: the request gets a token of *token_url*; *client_secret* refers to a secret.

    *auth* is how the client names itself there.
    """

    token_url: str
    client_id: str
    client_secret: str
    scope: str | None = None
    audience: str | None = None
    auth: ClientAuth = "basic"


class RequestConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The request of a tool.

    *url* has arguments in its path, as `{order_id}`. *headers* and *query* are the author's own. *send* says where an
    argument goes that is not in the path, and under which name: `query`, `header:X-Name`, `body:name`, or `whole` for
    one that is the body. *body* is how the other arguments go; None: by the method. *ok* are statuses beyond 2xx that
    are no errors. *idempotency_header* carries the call's id with each call that writes; None: it is not sent.
    *html* says what the model reads of an HTML page. *slashes* are the arguments in the path whose values may have
    slashes, percent-encoded.
    Texts of *url*, *headers*, *query* and *oauth* may refer to secrets.
    """

    url: str
    method: Method = "GET"
    headers: dict[str, str] = {}
    query: dict[str, str] = {}
    send: dict[str, str] = {}
    body: BodyMode | None = None
    ok: tuple[int, ...] = ()
    idempotency_header: str | None = "Idempotency-Key"
    slashes: tuple[str, ...] = ()
    html: Literal["text", "source"] = "text"
    oauth: OAuth | None = None

    @property
    def mode(self) -> BodyMode:
        """Return how the arguments go that nothing else is said of."""
        return self.body or ("query" if self.method in _IN_QUERY else "json")

    @property
    def effect(self) -> Literal["read", "write"]:
        """Return the effect of a request with this method."""
        return "read" if self.method in READS else "write"


def config_of(config: dict[str, Any]) -> RequestConfig:
    """Return a definition's *config* with its types; raises `InvalidInput` with the field."""
    try:
        return msgspec.convert(config, RequestConfig)
    except msgspec.ValidationError as error:
        raise InvalidInput(*misfit_in(CONFIG, error, RequestConfig)) from None
