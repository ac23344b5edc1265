"""Which form of each table and chart a message shows, so that all of them keep Slack's limits together; pure."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from agent_core import chart_of, table_of
from channels.base import ShownRender
from channels.slack.outbound.drawn.charts import chart_steps, text_of
from channels.slack.outbound.drawn.ladder import ChosenForm, Ladder
from channels.slack.outbound.drawn.room import MESSAGE, Room
from channels.slack.outbound.drawn.tables import attachment_of, table_steps, twin_of


def ladder_of(render: ShownRender, *, links: bool = False) -> Ladder | None:
    """Return the forms of *render*; None where its text is what it shows.

    With *links* plain charts that are not Slack's own are pictures of the service of `QUICKCHART_URL`.
    """
    renderer = RENDERERS.get(render.kind)
    return None if renderer is None else renderer(render, links)


def _table_ladder(render: ShownRender, _links: bool) -> Ladder | None:  # noqa: FBT001 - a renderer's shape
    table = table_of(render.payload)
    if table is None or not (steps := table_steps(render, table)):
        return None
    return Ladder(render, steps, partial(twin_of, table), attachment_of(render, table))


def _chart_ladder(render: ShownRender, links: bool) -> Ladder | None:  # noqa: FBT001 - a renderer's shape
    if not isinstance(render.payload.get("spec"), dict):
        return None
    chart = chart_of(render.payload)
    return Ladder(render, chart_steps(render, chart, links=links), partial(text_of, render, chart))


RENDERERS: Mapping[str, Callable[[ShownRender, bool], Ladder | None]] = {"table": _table_ladder, "chart": _chart_ladder}
"""How Slack draws renders, by kind; it shows the text of all others. The flag is `links` of `ladder_of`."""


class Ladders:
    """The ladders of a thread's renders, each made once: a message that is drawn again has the very same forms."""

    def __init__(self, *, links: bool = False) -> None:
        self._links = links
        self._made: dict[str, tuple[ShownRender, Ladder | None]] = {}

    def has(self, render: ShownRender) -> bool:
        """Return whether the ladder of *render* is made."""
        return self._made.get(render.id, (None, None))[0] == render

    def of(self, render: ShownRender) -> Ladder | None:
        """Return the ladder of *render*, None when it is no table and no chart.

        A call that runs again after a crash may show something else under the same id: that has a ladder of its own.
        """
        cached, ladder = self._made.get(render.id, (None, None))
        if cached != render:
            ladder = ladder_of(render, links=self._links)
            self._made[render.id] = render, ladder
        return ladder


def choose(ladders: Iterable[Ladder], refused: Mapping[str, int], room: Room = MESSAGE) -> tuple[ChosenForm, ...]:
    """Return a form for each of *ladders*, the renders of one message in their order, that *room* holds together.

    The first ones get the better forms, so that what is shown does not change when another follows. *refused* has for
    the id of a render the first step that may still be sent: one more than that of the `ChosenForm`
    that was refused.
    """
    forms: list[ChosenForm] = []
    for ladder in ladders:
        choice = ladder.best(room, refused.get(ladder.render.id, 0))
        room = room.without(choice.taken)
        forms.append(choice)
    return tuple(forms)
