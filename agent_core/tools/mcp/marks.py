"""What one call carries to the sockets and back: the client's own tasks see it by their context."""

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent_core.tools.mcp.questions import LiveQuestions


@dataclass(slots=True, eq=False)
class CallMark:
    """One use of a connection.

    *headers* go with its requests. *sent* is whether its request may have reached the server, *status* the HTTP status
    that refused it, *remedy* what an operator does about that where a scope lacks, *failure* why there was no answer at
    all. *questions* answers what the server asks during the call.
    """

    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    sent: bool = False
    status: int | None = None
    remedy: str | None = None
    failure: Exception | None = None
    questions: "LiveQuestions | None" = None


CURRENT: ContextVar[CallMark | None] = ContextVar("parley_mcp_call", default=None)
