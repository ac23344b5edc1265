"""The demo page as a document: the agent that answers, those to switch to, and what could not be loaded."""

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from channels.default_agent import default_agent
from channels.legible import one_line

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
