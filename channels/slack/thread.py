"""A thread of Slack: where a session lives, and for whom it is answered now."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

_KIND = "slack"


@dataclass(frozen=True, slots=True)
class Thread:
    """A conversation: the thread at *root* of a channel of the workspace *team*; *enterprise* is its organisation.

    *user*, of *user_team*, wrote what is answered now; Slack wants both for a stream outside direct messages. *title*
    is that of the session that the first answer opens. *agent* names who answers; with *allow_mentions* its words may
    mention users. *loading* is what is shown while it works.
    """

    team: str
    channel: str
    root: str
    user: str
    user_team: str
    enterprise: str | None = None
    is_dm: bool = False
    title: str | None = None
    agent: str | None = None
    allow_mentions: bool = False
    loading: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        """Return the session's address, which no other thread, workspace or channel has."""
        return f"{_KIND}:{self.enterprise or '-'}:{self.team}:{self.channel}:{self.root}"

    def data(self) -> dict[str, Any]:
        """Return the thread as JSON."""
        return asdict(self)

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> "Thread":
        """Return the thread that `data` gave; fields of a newer version are passed over."""
        return cls(**{name: value for name, value in data.items() if name in cls.__dataclass_fields__})
