"""Derive a tool's description and schema from a function, and convert arguments to its parameters."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn, get_type_hints

import docstring_parser
from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, create_model
from pydantic.errors import PydanticSchemaGenerationError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import SchemaError

from agent_core.schemas import uncheckable, unsendable
from agent_core.tools.base import CallContext, UnfitFunction

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
