"""A thread of Slack, what Slack signs, and what an agent configures of Slack."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import msgspec

from agent_core.agents import Definition
from agent_core.channels import ChannelConflict
from agent_core.errors import InvalidInput
from channels.spec import AgentSettings

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


# Bolt and the SDK read these with `int` and compare them as they are: an odd one would be an error of theirs.
_TIMESTAMP = re.compile(r"[0-9]{1,11}", re.ASCII)
_SIGNATURE = re.compile(r"v0=[0-9a-f]{64}", re.ASCII)
FORM, SHORT = "application/x-www-form-urlencoded", 1_000
"""The media type of Slack's look at our certificate, and the bytes that it takes at most."""
UNSIGNED = "The request has no valid signature of Slack's that is at most five minutes old."


def signature(headers: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the timestamp and the signature that *headers* have, not yet verified; None unless both are valid."""
    timestamp, signed = headers.get("x-slack-request-timestamp", ""), headers.get("x-slack-signature", "")
    return (timestamp, signed) if _TIMESTAMP.fullmatch(timestamp) and _SIGNATURE.fullmatch(signed) else None


def unsigned_bytes(headers: Mapping[str, str]) -> int:
    """Return how many bytes may be read of a request that is not signed: a short form may be Slack's `ssl_check`."""
    return SHORT if headers.get("content-type", "").startswith(FORM) else 0


NAME = "slack"
MAX_LOADING = 10
MAX_LOADING_TEXT = 100
MAX_PROMPTS = 4
"""Slack shows no more, see `limits.PROMPTS`."""
MAX_PROMPT_TITLE = 75
MAX_PROMPT_MESSAGE = 2_000
"""Characters. Slack's pages name no length of a prompt; these are what it lets a button show and carry."""
PROMPTS = ({"title": "What can you do?", "message": "What can you help me with?"},)
"""What every agent can answer, whatever its tools; an agent's own are `slack: {prompts}`."""
MAX_CLAIMS = 1000
EVERYWHERE = "*"
IN_SLACK = "slack: {default: true}"
"""What an agent's file has at the least so that the agent is in Slack."""
_ID = re.compile(r"[A-Z][A-Z0-9]{1,40}")


class Prompt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A suggestion above the Messages tab: *title* is shown, and *message* is written in the person's name."""

    title: str
    message: str


class Slack(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where in Slack an agent answers, and how.

    *default*: where no other agent claims the channel, in all workspaces or in those listed. *channels* are ids, or
    `workspace/channel`. *follow_up*: once it is in a thread it answers there without a mention. *allow_mentions*: its
    mentions of people notify them. *external* is what people from outside get, and all others where those read too.
    *loading* is shown while it works, *prompts* above the Messages tab where it answers.
    """

    default: bool | tuple[str, ...] = False
    channels: tuple[str, ...] = ()
    follow_up: bool = True
    allow_mentions: bool = False
    external: Literal["refuse", "answer"] = "refuse"
    loading: tuple[str, ...] = ()
    prompts: tuple[Prompt, ...] = ()


def settings_of(agent: Definition) -> Slack:
    """Return what *agent* configures of Slack."""
    return SETTINGS.of(NAME, agent.channels)


def is_in_slack(agent: Definition) -> bool:
    """Return whether *agent* answers anywhere in Slack."""
    slack = settings_of(agent)
    return bool(slack.channels or slack.default)


def route(agents: Iterable[Definition], team: str, channel: str) -> str | None:
    """Return the name of the agent that answers in *channel* of workspace *team*, the default one if none claims it."""
    default: str | None = None
    for agent in agents:
        slack = settings_of(agent)
        if not {channel, f"{team}/{channel}"}.isdisjoint(slack.channels):
            return agent.name
        if slack.default is True or (slack.default and team in slack.default):
            default = default or agent.name
    return default


def conflicts(agents: Sequence[tuple[str, Slack]]) -> list[ChannelConflict]:
    """Return which agents claim one channel, or are both the default of one workspace.

    A channel claimed in one workspace and in all is claimed twice, and so is a default.
    """
    result: list[ChannelConflict] = []
    held: dict[tuple[str, str], dict[str, str]] = {}
    for name, slack in agents:
        for path, team, channel in _claims(slack):
            holders = held.setdefault((path, channel), {})
            for other, first in holders.items():
                if first != name and (team == other or EVERYWHERE in (team, other)):
                    claim = f"the channel `{channel}`" if channel else _default(other if team == EVERYWHERE else team)
                    result.append(ChannelConflict(first, name, path, claim))
            holders[team] = name
    return result


def _default(team: str) -> str:
    return "the default of " + ("every workspace" if team == EVERYWHERE else f"workspace `{team}`")


def check(slack: Slack) -> None:
    """Raise `InvalidInput` for what is no id, and beyond the bounds."""
    teams = () if isinstance(slack.default, bool) else slack.default
    if isinstance(slack.default, tuple) and not slack.default:
        raise InvalidInput("$.default", "name at least one workspace, or say true or false.")
    for n, team in enumerate(teams):
        if not _ID.fullmatch(team):
            raise InvalidInput(f"$.default[{n}]", f"`{team[:50]}` is not a workspace id; one looks like T0123ABCD.")
    for n, claim in enumerate(slack.channels):
        team, slash, channel = claim.rpartition("/")
        if not _ID.fullmatch(channel) or (slash and not _ID.fullmatch(team)):
            remedy = "give the id (C0123ABCD) or workspace/channel: names can be changed."
            raise InvalidInput(f"$.channels[{n}]", f"`{claim[:50]}` is not a channel id; {remedy}")
    if max(len(teams), len(slack.channels)) > MAX_CLAIMS:
        raise InvalidInput("$.channels", f"at most {MAX_CLAIMS} channels and workspaces.")
    if len(slack.loading) > MAX_LOADING:
        raise InvalidInput("$.loading", f"at most {MAX_LOADING} texts.")
    for n, text in enumerate(slack.loading):
        if not text.strip() or len(text) > MAX_LOADING_TEXT or len(text.splitlines()) > 1:
            raise InvalidInput(f"$.loading[{n}]", f"one line of 1 to {MAX_LOADING_TEXT} characters.")
    _check_prompts(slack.prompts)


def _check_prompts(prompts: Sequence[Prompt]) -> None:
    if len(prompts) > MAX_PROMPTS:
        raise InvalidInput("$.prompts", f"at most {MAX_PROMPTS} prompts.")
    for n, prompt in enumerate(prompts):
        title, message = prompt.title, prompt.message
        if not title.strip() or len(title) > MAX_PROMPT_TITLE or len(title.splitlines()) > 1:
            raise InvalidInput(f"$.prompts[{n}].title", f"one line of 1 to {MAX_PROMPT_TITLE} characters.")
        if not message.strip() or len(message) > MAX_PROMPT_MESSAGE:
            raise InvalidInput(f"$.prompts[{n}].message", f"1 to {MAX_PROMPT_MESSAGE:,} characters.")


def _claims(slack: Slack) -> Iterator[tuple[str, str, str]]:
    """Give each claim: the field, the workspace and the channel, empty for a default."""
    for claim in slack.channels:
        team, _, channel = claim.rpartition("/")
        yield "channels", team or EVERYWHERE, channel
    if slack.default:
        for team in (EVERYWHERE,) if slack.default is True else slack.default:
            yield "default", team, ""


SETTINGS = AgentSettings(Slack, check, claims=lambda slack: bool(slack.channels or slack.default), conflicts=conflicts)
