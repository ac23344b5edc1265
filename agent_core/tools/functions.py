"""Tools made of Python functions: their signature as a schema, and a thread for what blocks."""

import asyncio
import contextvars
import inspect
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, Literal, NoReturn, ParamSpec, TypeVar, cast, get_type_hints, overload

import docstring_parser
import msgspec
import pydantic_core
from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, ValidationError, create_model
from pydantic.errors import PydanticSchemaGenerationError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import SchemaError

from agent_core.agents import RESULT_LIMIT, ToolSpec
from agent_core.messages import Part, Text, all_clean
from agent_core.schemas import uncheckable, unsendable
from agent_core.tools.base import (
    CallContext,
    Done,
    Elicitation,
    NewRender,
    Outcome,
    Pending,
    ToolError,
    UnfitFunction,
    unshown,
)
from agent_core.traces import words_of


async def in_thread(work: Callable[[], object]) -> object:
    """Return what *work* returns, or raise what it raises.

    A thread cannot be stopped: when the caller is cancelled *work* runs on and its result is dropped. The thread is a
    daemon, and there is no pool: calls that hang take no place from others.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[object] = loop.create_future()
    context = contextvars.copy_context()

    def run() -> None:
        result: object = None
        error: BaseException | None = None
        try:
            result = context.run(work)
        except BaseException as caught:  # noqa: BLE001 - handed to the task that waits
            error = caught
        with suppress(RuntimeError):  # the loop is closed, the result is not needed any more
            loop.call_soon_threadsafe(_deliver, future, result, error)

    threading.Thread(target=run, name="parley-tool", daemon=True).start()
    return await future


def _deliver(future: "asyncio.Future[object]", result: object, error: BaseException | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)


Function = Callable[..., object]
_REMEDY = "leave it out of the annotation and see to it in the function."


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a function as a *model* with a JSON *schema*; *context* is the one that gets the context."""

    description: str
    schema: dict[str, Any]
    model: type[BaseModel]
    names: dict[str, str]
    context: str | None

    @classmethod
    def of(cls, function: Function) -> "Signature":
        """Read *function*; UnfitFunction names it and the remedy when no schema fits."""
        _check_kind(function)
        docstring = docstring_parser.parse(inspect.getdoc(function) or "")
        if not docstring.description:
            _refuse(function, "has no docstring; its first sentence says what the tool does.")
        descriptions = {each.arg_name.lstrip("*"): each.description or "" for each in docstring.params}
        hints = _hints(function)
        context, names, fields = None, dict[str, str](), dict[str, Any]()
        for name, parameter in _parameters(function, hints):
            if hints[name] is CallContext:
                context = name
                continue
            # Fields get numbers and the parameter's name as alias, for a parameter may be called `copy` or `_x`.
            field = f"p{len(names)}"
            names[field] = name
            fields[field] = (hints[name], _field(name, parameter, descriptions.get(name)))
        model = _model(function, fields)
        return cls(docstring.description.strip(), _schema(function, model), model, names, context)

    def read(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the values of the parameters that *arguments* name; raises pydantic's ValidationError."""
        values = self.model.model_validate(arguments)
        return {name: getattr(values, field) for field, name in self.names.items() if field in values.model_fields_set}

    def context_argument(self, context: CallContext) -> dict[str, CallContext]:
        """Return *context* under the name of the parameter that wants it."""
        return {self.context: context} if self.context else {}


def _check_kind(function: Function) -> None:
    if not inspect.isroutine(function):
        _refuse(function, "is no function; decorate a `def` or an `async def`.")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        _refuse(function, "yields; return the whole result, and report what goes on by `context.progress`.")


def _hints(function: Function) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        _refuse(function, f"has an annotation that cannot be read ({error}); import the name at module level.")


def _parameters(function: Function, hints: dict[str, Any]) -> Iterator[tuple[str, inspect.Parameter]]:
    for name, parameter in inspect.signature(function).parameters.items():
        match parameter.kind:
            case inspect.Parameter.VAR_POSITIONAL | inspect.Parameter.VAR_KEYWORD:
                _refuse(function, f"takes `{parameter}`; name each parameter, or take one list or dict.")
            case inspect.Parameter.POSITIONAL_ONLY:
                _refuse(function, f"takes `{name}` by position only; remove the `/`, a model passes names.")
            case _ if name not in hints:
                _refuse(function, f"does not say the type of `{name}`; annotate it, as in `{name}: str`.")
            case _ if isinstance(parameter.default, FieldInfo):
                _refuse(function, f"has a Field as the default of `{name}`; write `Annotated[..., Field(...)]`.")
            case _:
                yield name, parameter


def _field(name: str, parameter: inspect.Parameter, description: str | None) -> Any:
    default = ... if parameter.default is inspect.Parameter.empty else parameter.default
    # Only what is passed counts, so that a description in `Annotated` stands when the docstring has none.
    extra: dict[str, Any] = {"description": description} if description else {}
    return Field(default, alias=name, **extra)


def _model(function: Function, fields: dict[str, Any]) -> type[BaseModel]:
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=False)
    try:
        return create_model(_name(function), __config__=config, **fields)
    except (PydanticSchemaGenerationError, PydanticUserError, TypeError) as error:
        _refuse(function, f"has a parameter whose type JSON cannot hold; use plain types or models. {_first(error)}")
    except SchemaError as error:
        _refuse(function, f"has a rule that cannot be checked; {_REMEDY} {str(error).splitlines()[-1]}")


def _schema(function: Function, model: type[BaseModel]) -> dict[str, Any]:
    try:
        schema = model.model_json_schema(by_alias=True, schema_generator=_Terse)
    except PydanticUserError as error:
        _refuse(function, f"has a parameter whose type JSON cannot hold; use plain types or models. {_first(error)}")
    del schema["title"]
    made = {**schema, "properties": schema.get("properties", {}), "additionalProperties": False}
    if fault := unsendable(made):
        _refuse(function, f"has a parameter that models cannot be given, {fault}")
    if fault := uncheckable(made):
        _refuse(function, f"has a rule that no call can be held to; {_REMEDY} {fault}")
    return made


class _Terse(GenerateJsonSchema):
    """JSON Schema without what is useless to a model: titles made of names, defaults that JSON cannot hold."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - as in the base class

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - the base class asks
        return False


def _refuse(function: Function, why: str) -> NoReturn:
    raise UnfitFunction(f"`{_name(function)}` cannot be a tool: it {why}")


def _name(function: Function) -> str:
    return getattr(function, "__qualname__", type(function).__name__)


def _first(error: Exception) -> str:
    return str(error).splitlines()[0]


NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What every model's wire takes as a tool's name."""
P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class FunctionTool(Generic[P, R]):
    """A tool made of *function*; calling it as Python does calls the function itself."""

    spec: ToolSpec
    function: Callable[P, R]
    signature: Signature

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    async def call(self, arguments: dict[str, Any], context: CallContext) -> Outcome:
        """Run with *arguments*, converted to what the annotations say.

        An async function is awaited. Any other runs in a thread, which cannot be stopped: after a cancel or a
        timeout it runs on to its end, and its result is dropped.
        """
        try:
            values = self.signature.read(arguments)
        except ValidationError as error:
            return ToolError(f"The arguments do not fit `{self.spec.name}`: {_problems(error)}")
        run = cast("Callable[..., object]", self.function)
        if inspect.iscoroutinefunction(run):
            return outcome(await run(**values, **self.signature.context_argument(context)))
        injected = self.signature.context_argument(_from_thread(context))
        result = await in_thread(partial(_no_stop, run, {**values, **injected}))
        return outcome(await result if inspect.isawaitable(result) else result)


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    title: str | None = None,
    title_done: str | None = None,
    untrusted: bool = False,
    effect: Literal["read", "write"] = "read",
    concurrency_safe: bool = False,
    idempotent: bool = False,
    timeout: float = 60.0,
    result_limit: int = RESULT_LIMIT,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(function: Callable[..., Any] | None = None, /, *, name: str | None = None, **options: Any) -> Any:
    """Make a tool of a function: bare, as `@tool`, or with options, as `@tool(effect="write")`.

    The model reads the name, the docstring's text and the parameters with their types, defaults and descriptions
    (Google, numpy or reST sections, or `Annotated[..., Field(description=...)]`). A parameter annotated
    `CallContext` gets the context of the call and stays unseen. The result becomes text: a string as it is,
    anything else as JSON; a Part, several of them, or an `Outcome` are taken as they are.

    *title* says to people what the tool does while it runs ("Looking up your order"), *title_done* afterwards ("Looked
    up your order"). *untrusted*: what it returns may have been written by strangers. *effect* `write` means that a
    second execution may do harm, *idempotent* that the function hands on `context.call` as an idempotency
    key, *concurrency_safe* that calls may run side by side; *timeout* is seconds, *result_limit* characters shown to
    the model. `UnfitFunction` is raised for a function that no schema fits.
    """

    def make(function: Callable[..., Any]) -> FunctionTool[..., Any]:
        signature = Signature.of(function)
        spec = ToolSpec(
            name=_named(name or function.__name__),
            description=signature.description,
            parameters=signature.schema,
            **options,
        )
        return FunctionTool(spec, function, signature)

    return make if function is None else make(function)


def outcome(result: object) -> Outcome:
    """Return *result* of a function as the outcome of its call."""
    match result:
        case Done() | ToolError() | Pending() | Elicitation():
            return result
        case NewRender():
            return Done((), (result,))
        case str():
            return Done((Text(result),))
        case _ if isinstance(result, Part):
            return Done((result,))
        case tuple() | list() if result and all(isinstance(each, Part) for each in cast("list[object]", result)):
            return Done(tuple(cast("list[Part]", result)))
        case _:
            return _json(result)


def _json(result: object) -> Done:
    """Return *result* as JSON; what half a character keeps from becoming UTF-8 is written with it in its place."""
    try:
        text = _written(result)
    except Exception as error:  # noqa: BLE001 - of the result's own code too, and the function has run
        try:
            text = _written(all_clean(result, _python))
        except Exception:  # noqa: BLE001 - as above
            return unshown(words_of(error).rpartition("Error serializing to JSON: ")[2])
    return Done((Text(text),))


def _written(result: object) -> str:
    """Return *result* as JSON, which has no NaN: that is null."""
    return pydantic_core.to_json(result, fallback=_builtins, inf_nan_mode="null").decode()


def _python(value: object) -> object:
    if isinstance(value, Iterator):
        raise TypeError("it has been read already.")
    return pydantic_core.to_jsonable_python(value, fallback=_builtins)


def _builtins(value: object) -> object:
    if isinstance(value, msgspec.Struct):
        return msgspec.to_builtins(value)
    raise TypeError(f"a `{type(value).__name__}` cannot be shown to a model; return text, or what JSON can hold.")


def _no_stop(function: Callable[..., object], values: Mapping[str, object]) -> object:
    """Call *function* in its thread; a `StopIteration` would never arrive and leave the caller waiting."""
    try:
        return function(**values)
    except StopIteration as error:
        raise RuntimeError("the function raised StopIteration.") from error


def _from_thread(context: CallContext) -> CallContext:
    """Return *context* with a `progress` and `rows` that may be used in another thread, and by a loop of its own."""
    loop, progress = asyncio.get_running_loop(), context.progress

    def report(text: str) -> None:
        loop.call_soon_threadsafe(progress, text)

    async def rows(handle: str) -> list[dict[str, Any]]:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(context.rows(handle), loop))

    return replace(context, progress=report, rows=rows)


def _named(name: str) -> str:
    if not NAME.fullmatch(name):
        raise UnfitFunction(
            f"`{name}` is no name for a tool: use 1 to 64 letters, digits, `_` and `-`; `@tool(name=...)` sets it."
        )
    return name


def _problems(error: ValidationError) -> str:
    return "; ".join(
        f"`{'.'.join(str(step) for step in each['loc'])}`: {each['msg']}" for each in error.errors(include_url=False)
    )
