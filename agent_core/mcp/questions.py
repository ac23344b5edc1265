"""What MCP servers ask people (elicitation): read, kept over the wait, and answered, in both eras."""

import asyncio
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import mcp_types as wire
import msgspec

from agent_core.clock import Clock, within
from agent_core.listings import strings_of
from agent_core.messages import visible
from agent_core.schemas import is_choice_of_several
from agent_core.tools.base import Elicitation, ElicitationAnswer, Outcome, ToolError

MAX_STATE = 100_000
"""Characters of a server's own state that is kept until the person answers."""
MAX_HELD_SECONDS = 900.0
"""Seconds for which a call that may have written waits for an answer."""
_MAX_FIELDS = 20
_MAX_MESSAGE, _MAX_SCHEMA = 4_000, 20_000
_PRIMITIVES = frozenset({"string", "number", "integer", "boolean"})
_VALUES = frozenset({"enum", "const", "required"})
"""Keys of a schema whose texts the server compares with the answer's."""
Action = Literal["accept", "decline"]


class Unanswerable(Exception):
    """The server asks for what is not offered; the message says what."""


class ServerQuestion(msgspec.Struct, frozen=True):
    """One form: its *message* and the *schema* of its fields."""

    message: str
    schema: dict[str, Any]


class Answered(msgspec.Struct, frozen=True):
    """What a person answered to a question."""

    question: ServerQuestion
    action: Action
    content: dict[str, Any] | None = None


class AskedSoFar(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a call needs to go on after its questions; the `state` of its `Elicitation` is this as JSON.

    In the modern era *requests* are the server's open questions by its own keys, *responses* what is answered already,
    and *request_state* its own state. In the legacy era *answers* are those to give when it asks again.
    *open* is the question that the person is asked now. *notes* are for the result. *held*: the call itself waits for
    the answer, in the process that made it; *number* is which of its questions the open one is, from 1.
    """

    requests: dict[str, ServerQuestion] = {}
    responses: dict[str, Any] = {}
    request_state: str | None = None
    answers: tuple[Answered, ...] = ()
    open: ServerQuestion | None = None
    notes: tuple[str, ...] = ()
    held: bool = False
    number: int = 0

    def elicitation(self, server: str) -> Elicitation:
        """Return the open question, as one of *server*, named first: of a long one only the begin is shown."""
        assert self.open is not None, "No question is open."
        state = msgspec.json.encode(self).decode()
        if len(state) > MAX_STATE:
            raise Unanswerable("it wants more kept for it than is kept, until its question is answered")
        detail = f"The MCP server `{server}` asks this."
        return Elicitation(f"{server} asks: {visible(self.open.message)}", self.open.schema, detail, state)

    def next(self) -> "AskedSoFar | None":
        """Return this with the next question open; None when all of the modern era are answered."""
        for key, question in self.requests.items():
            if key not in self.responses:
                return msgspec.structs.replace(self, open=question)
        return None


NOTHING_ASKED = AskedSoFar()


def taken_up(answer: ElicitationAnswer | None) -> AskedSoFar:
    """Return what an earlier execution of the call left, with what the person answered since."""
    if answer is None or not answer.state:
        return NOTHING_ASKED
    asked = msgspec.json.decode(answer.state, type=AskedSoFar)
    if asked.open is None:
        return asked
    action: Action = "accept" if answer.accepted else "decline"
    content = dict(answer.content) if answer.accepted else None
    key = next((key for key, each in asked.requests.items() if key not in asked.responses and each == asked.open), None)
    if key is None:
        given = (*asked.answers, Answered(asked.open, action, content))
        return msgspec.structs.replace(asked, answers=given, open=None)
    responses = {**asked.responses, key: {"action": action, **({"content": content} if content else {})}}
    return msgspec.structs.replace(asked, responses=responses, open=None)


def answer_of(answer: ElicitationAnswer | None) -> wire.ElicitResult:
    """Return what a person answered, for a server that waits for it."""
    if answer is None or not answer.accepted:
        return wire.ElicitResult(action="decline")
    return wire.ElicitResult(action="accept", content=dict(answer.content))


def asked_by(result: wire.InputRequiredResult, before: AskedSoFar) -> AskedSoFar:
    """Return what a result of the modern era asks; what no form can answer is declined.

    Raises `Unanswerable` for what is no question to a person.
    """
    requests: dict[str, ServerQuestion] = {}
    responses: dict[str, Any] = {}
    notes = list(before.notes)
    for key, request in (result.input_requests or {}).items():
        if not isinstance(request, wire.ElicitRequest):
            raise Unanswerable(f"it asks for `{request.method}`, which is not offered")
        question = read(request.params)
        if isinstance(question, str):
            notes.append(question)
            responses[key] = {"action": "decline"}
        else:
            requests[key] = question
    return AskedSoFar(requests, responses, result.request_state, notes=tuple(notes))


def read(params: wire.ElicitRequestParams) -> ServerQuestion | str:
    """Return the form that a server asks for, or the sentence that says why it is declined."""
    if isinstance(params, wire.ElicitRequestURLParams):
        return "The server asked the person to open a web address; that was declined, as this client has forms only."
    schema = _without_null(params.requested_schema)
    if not _is_flat(schema):
        return (
            "The server asked the person for more than plain fields and choices from a list, which no form here has; "
            "that was declined."
        )
    if len(params.message) > _MAX_MESSAGE or len(msgspec.json.encode(schema)) > _MAX_SCHEMA:
        return "The server asked the person a question that is too long; that was declined."
    if _hides(schema):
        return "The server asked the person with characters that people do not see; that was declined."
    return ServerQuestion(params.message, strings_of(schema, visible))


class LiveQuestions:
    """Answers what a server of the legacy era asks while a call runs.

    A question that the person has answered gets that answer. With another one the call ends, and is made again with
    its answer, if it is *repeatable*; otherwise the question stays open for `MAX_HELD_SECONDS`, until `reply`.
    """

    def __init__(self, asked: AskedSoFar, clock: Clock, *, repeatable: bool) -> None:
        self._answers, self._repeatable, self._clock = asked.answers, repeatable, clock
        self.notes = list(asked.notes)
        self.open: asyncio.Future[ServerQuestion] = _future()
        self.over = asyncio.Event()
        self._opened = 0
        self._replied: asyncio.Future[wire.ElicitResult] = _future()

    async def answer(self, params: wire.ElicitRequestParams) -> wire.ElicitResult | wire.ErrorData:
        """Return the answer; with a new question only once the call is *over*, so that the server sees no answer."""
        question = read(params)
        if isinstance(question, str):
            return self.declined(question)
        for each in self._answers:
            if each.question == question:
                return wire.ElicitResult(action=each.action, content=each.content)
        if not self._repeatable:
            return await self._held(question)
        if not self.open.done():
            self.open.set_result(question)
        await self.over.wait()
        return wire.ErrorData(code=wire.INVALID_REQUEST, message="The call was cancelled.")

    async def _held(self, question: ServerQuestion) -> wire.ElicitResult:
        """Return the answer to *question* once it is there."""
        if self.open.done():
            return self.declined("The server asked the person two things at once; the second was declined.")
        self._replied, self._opened = _future(), self._opened + 1
        replied, opened = self._replied, self.open
        self.open.set_result(question)
        try:
            async with within(self._clock, MAX_HELD_SECONDS):
                return await replied
        except TimeoutError:
            if replied.done() and not replied.cancelled():  # at the same moment
                return replied.result()
            if self.open is opened:
                self.open = _future()
            return self.declined(
                "The server asked the person something; that was declined, since a call waits "
                f"{MAX_HELD_SECONDS / 60:g} minutes for an answer."
            )

    def reply(self, number: int, answer: wire.ElicitResult) -> None:
        """Answer the question of this *number*, if it is the one that is open: each is a consent of its own."""
        if self.open.done() and number == self._opened:
            self.open = _future()
            if not self._replied.done():  # its time is up at this moment
                self._replied.set_result(answer)

    def declined(self, note: str) -> wire.ElicitResult:
        """Decline, and say so in the call's result."""
        if note not in self.notes:
            self.notes.append(note)
        return wire.ElicitResult(action="decline")

    def asked(self) -> AskedSoFar:
        """Return what the call needs when it is made again."""
        return AskedSoFar(
            answers=self._answers,
            open=self.open.result(),
            notes=tuple(self.notes),
            held=not self._repeatable,
            number=self._opened,
        )


def _future() -> "asyncio.Future[Any]":
    return asyncio.get_running_loop().create_future()


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return *schema* with fields that may be null as fields that may be left out: a form has no null."""
    fields: object = schema.get("properties")
    if not isinstance(fields, dict):
        return schema
    plain, empty = dict[str, Any](), set[str]()
    for name, one in cast("dict[str, Any]", fields).items():
        kinds: object = cast("dict[str, Any]", one).get("type") if isinstance(one, dict) else None
        others = [each for each in cast("list[object]", kinds) if each != "null"] if isinstance(kinds, list) else []
        plain[name] = {**one, "type": others[0]} if len(others) == 1 else one
        if plain[name] is not one:
            empty.add(name)
    required = [name for name in schema.get("required") or () if name not in empty]
    return {**schema, "properties": plain, **({"required": required} if "required" in schema else {})}


def _is_flat(schema: Mapping[str, Any]) -> bool:
    fields = schema.get("properties")
    if schema.get("type", "object") != "object" or not isinstance(fields, dict):
        return False
    found = cast("dict[str, Any]", fields)
    return len(found) <= _MAX_FIELDS and all(map(_can_be_asked, found.values()))


def _can_be_asked(field: object) -> bool:
    if not isinstance(field, dict):
        return False
    given = cast("dict[str, Any]", field)
    kind: object = given.get("type")
    return is_choice_of_several(given) or (
        isinstance(kind, str)
        and kind in _PRIMITIVES
        and not given.keys() & {"properties", "items", "anyOf", "allOf", "$ref"}
    )


def _hides(value: object, key: str = "") -> bool:
    """Return whether hidden characters are where they cannot be taken out: in names, and in values of the server's."""
    if isinstance(value, dict):
        given = cast("dict[str, object]", value)
        return any(visible(name) != name or _hides(each, name) for name, each in given.items())
    if isinstance(value, list):
        return any(_hides(each, key) for each in cast("list[object]", value))
    return isinstance(value, str) and key in _VALUES and visible(value) != value


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


MAX_HELD, MAX_OF_ACTOR = 20, 3
"""Calls of one server that wait for people, or that have ended without being asked for: in all, and of one person."""
MAX_OF_ANONYMOUS = 10
"""Of them those of all anonymous visitors: one more such visitor costs nothing, so many are no more than a crowd."""
ANONYMOUS = "anonymous_"
"""How the ids of actors begin whom no site names."""
_LOST = (
    "It asked a person, and the call that waited for the answer is gone: this process, or the connection, is another "
    "one. Look whether it has done its work."
)
_MANY = (
    f"The server asked the person something; that was declined, since {MAX_HELD} of its calls wait for answers, "
    f"{MAX_OF_ACTOR} of this person's, or {MAX_OF_ANONYMOUS} of anonymous visitors."
)


@dataclass(slots=True)
class Progress:
    """Passes the lines of one call on to the reader that it has now."""

    shown: Callable[[str], None]
    plain: Callable[[str], str]

    def __call__(self, text: str) -> None:
        self.shown(self.plain(text))


@dataclass(slots=True, eq=False)
class HeldCall:
    """A call under way as *task* for the *actor* of this id, what it asks, and who sees its *progress* now."""

    questions: LiveQuestions
    task: "asyncio.Task[Outcome]"
    progress: "Progress"
    actor: str


class HeldCalls:
    """The calls to *server* that may have written already, by their ids; each takes one question at a time."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._held: dict[str, HeldCall] = {}

    async def begun(self, call: str, held: HeldCall, seconds: float) -> Outcome | None:
        """Return how a new call ends, or what it asks; None when neither comes within *seconds*."""
        return await self._next(call, held, seconds)

    async def resumed(
        self, call: str, answer: ElicitationAnswer | None, progress: Callable[[str], None], seconds: float
    ) -> Outcome | None:
        """Do as `begun` for a call that waits, once it has its *answer*; its end is unknown if it waits no more.

        A form may be answered after its question was declined. What the call asks now is another question then: the
        answer is not its, and it is returned as what the person is asked next.
        """
        held = self._held.pop(call, None)
        if held is None:
            return ToolError(_LOST, unknown=True)
        held.progress.shown = progress
        held.questions.reply(taken_up(answer).number, answer_of(answer))
        return await self._next(call, held, seconds)

    async def close(self) -> None:
        """End the calls that wait."""
        held, self._held = list(self._held.values()), {}
        await asyncio.gather(*(_ended(each) for each in held))

    async def _next(self, call: str, held: HeldCall, seconds: float) -> Outcome | None:
        try:
            while True:
                open_ = held.questions.open
                await asyncio.wait((held.task, open_), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                if held.task.done():
                    return held.task.result()
                if not open_.done():
                    await _ended(held)
                    return None
                if (asked := self._asked(call, held)) is not None:
                    return asked
                held.questions.reply(held.questions.asked().number, held.questions.declined(_MANY))
        except BaseException:
            await _ended(held)
            raise

    def _asked(self, call: str, held: HeldCall) -> Elicitation | None:
        """Return what *held* asks, and keep it; None when too many wait. What has ended makes room."""
        asked = held.questions.asked().elicitation(self._server)
        mine = {key: each for key, each in self._held.items() if each.actor == held.actor}
        crowd = {key: each for key, each in self._held.items() if each.actor.startswith(ANONYMOUS)}
        if not self._has_room(mine, MAX_OF_ACTOR):
            return None
        if held.actor.startswith(ANONYMOUS) and not self._has_room(crowd, MAX_OF_ANONYMOUS):
            return None
        if not self._has_room(self._held, MAX_HELD):
            return None
        self._held[call] = held
        return asked

    def _has_room(self, among: dict[str, HeldCall], most: int) -> bool:
        """Return whether fewer than *most* are left *among* the calls; the oldest that has ended goes if it must."""
        if len(among) < most:
            return True
        done = next((key for key, each in among.items() if each.task.done()), None)
        if done is not None:
            del self._held[done]
        return done is not None


async def _ended(held: HeldCall) -> None:
    held.task.cancel()
    await asyncio.wait((held.task,))
