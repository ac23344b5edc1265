"""Places: which agent answers where, and how it behaves there. Pure; ids are opaque."""

import re
from collections.abc import Iterable, Iterator
from typing import Literal, Protocol

import msgspec

from agent_core.errors import InvalidInput

MAX_LOADING = 10
MAX_LOADING_TEXT = 100
MAX_CLAIMS = 1000
EVERYWHERE = "*"
_ID = re.compile(r"[A-Z][A-Z0-9]{1,40}")


class Slack(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where in Slack an agent answers, and how.

    *default*: where no other agent claims the channel, in all workspaces or in those listed. *channels* are ids, or
    `workspace/channel`. *follow_up*: once it is in a thread it answers there without a mention. *allow_mentions*: its
    mentions of people notify them. *external* is what people from outside get. *loading* is shown while it works.
    """

    default: bool | tuple[str, ...] = False
    channels: tuple[str, ...] = ()
    follow_up: bool = True
    allow_mentions: bool = False
    external: Literal["refuse", "answer"] = "refuse"
    loading: tuple[str, ...] = ()


class Placed(Protocol):
    """An agent as far as its places go."""

    @property
    def name(self) -> str: ...
    @property
    def slack(self) -> Slack: ...


class Clash(msgspec.Struct, frozen=True):
    """Two agents that claim the same place: *claim* is the second one's, at *path* of its settings."""

    first: str
    second: str
    path: str
    claim: str

    def __str__(self) -> str:
        what = "the default of " + ("every workspace" if self.claim == EVERYWHERE else f"workspace `{self.claim}`")
        told = f"the channel `{self.claim}`" if self.path == "channels" else what
        return f"`{self.first}` and `{self.second}` both claim {told}; take it from one of them."


def route(agents: Iterable[Placed], team: str, channel: str) -> str | None:
    """Return the name of the agent that answers in *channel* of workspace *team*: who claims it, else the default."""
    stand_in: str | None = None
    for agent in agents:
        if not {channel, f"{team}/{channel}"}.isdisjoint(agent.slack.channels):
            return agent.name
        if agent.slack.default is True or (agent.slack.default and team in agent.slack.default):
            stand_in = stand_in or agent.name
    return stand_in


def conflicts(agents: Iterable[Placed]) -> list[Clash]:
    """Return which agents claim one channel, or are both the default of one workspace.

    A channel claimed in one workspace and in all is claimed twice, and so is a default.
    """
    found: list[Clash] = []
    held: dict[tuple[str, str], dict[str, str]] = {}
    for agent in agents:
        for path, team, place in _claims(agent.slack):
            known = held.setdefault((path, place), {})
            for other, name in known.items():
                if name != agent.name and (team == other or EVERYWHERE in (team, other)):
                    claim = place if path == "channels" else other if team == EVERYWHERE else team
                    found.append(Clash(name, agent.name, path, claim))
            known[team] = agent.name
    return found


def check(slack: Slack) -> None:
    """Raise `InvalidInput` when *slack* names what cannot be a place, or shows too much."""
    teams = () if isinstance(slack.default, bool) else slack.default
    if isinstance(slack.default, tuple) and not slack.default:
        raise InvalidInput("slack.default", "name at least one workspace, or say true or false.")
    for n, team in enumerate(teams):
        if not _ID.fullmatch(team):
            raise InvalidInput(f"slack.default[{n}]", f"`{team[:50]}` is no workspace id; one looks like T0123ABCD.")
    for n, claim in enumerate(slack.channels):
        team, slash, channel = claim.rpartition("/")
        if not _ID.fullmatch(channel) or (slash and not _ID.fullmatch(team)):
            remedy = "give the id (C0123ABCD) or workspace/channel: names can be changed."
            raise InvalidInput(f"slack.channels[{n}]", f"`{claim[:50]}` is no channel id; {remedy}")
    if max(len(teams), len(slack.channels)) > MAX_CLAIMS:
        raise InvalidInput("slack.channels", f"at most {MAX_CLAIMS} channels and workspaces.")
    if len(slack.loading) > MAX_LOADING:
        raise InvalidInput("slack.loading", f"at most {MAX_LOADING} texts.")
    for n, text in enumerate(slack.loading):
        if not text.strip() or len(text) > MAX_LOADING_TEXT or len(text.splitlines()) > 1:
            raise InvalidInput(f"slack.loading[{n}]", f"one line of 1 to {MAX_LOADING_TEXT} characters.")


def _claims(slack: Slack) -> Iterator[tuple[str, str, str]]:
    """Give what is claimed: the field, the workspace and the channel."""
    for claim in slack.channels:
        team, _, channel = claim.rpartition("/")
        yield "channels", team or EVERYWHERE, channel
    if slack.default:
        for team in (EVERYWHERE,) if slack.default is True else slack.default:
            yield "default", team, ""
