"""The API's objects, derived from the core's structs: a field is defined once, there."""

from collections.abc import Collection, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin

import msgspec
from msgspec.structs import FieldInfo
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, create_model

TEXT, OBJECT = Tag("a text"), Tag("an object")
KINDS: Mapping[type, Tag] = {str: TEXT, dict: OBJECT, list: Tag("a list"), bool: Tag("a boolean")}
"""The kinds of JSON values by which the branch of a union is chosen."""


class RequestBody(BaseModel):
    """A request body: nothing unknown, nothing converted."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Derived(RequestBody):
    """A request body with the fields of *struct*."""

    struct: ClassVar[type[msgspec.Struct]]

    def value(self) -> Any:
        """Return the core's value, a *struct*."""
        return msgspec.convert(self.model_dump(), self.struct)


def body_of(
    struct: type[msgspec.Struct], narrowed: Mapping[str, Any] | None = None, *, partial: bool = False
) -> type[Derived]:
    """Return the request body with the fields of *struct*; each keeps its type unless *narrowed* gives another.

    Whether a field may be null, and what it is when it is absent, is always as in *struct*.

    In a *partial* body every field may be missing; only `model_dump(exclude_unset=True)` makes sense of it.
    """
    types = narrowed or {}
    fields: dict[str, Any] = {
        field.name: (_type_of(field, types.get(field.name)), _default(field, partial=partial))
        for field in msgspec.structs.fields(struct)
    }
    base = create_model(f"{struct.__name__}Body", __base__=Derived, __doc__=struct.__doc__, **fields)
    base.struct = struct
    return base


def one_of(*types: Any) -> Any:
    """Return the union of *types*, each of another kind."""
    kinds = [_kind_of_type(each) for each in types]
    branches = tuple(Annotated[each, kind] for each, kind in zip(types, kinds, strict=True))
    return Annotated[Union[branches], by_kind(*kinds)]  # noqa: UP007 - of a tuple that is made here


def by_kind(*kinds: Tag) -> Discriminator:
    """Return what chooses among branches tagged with *kinds*: an error is about the one that was meant, or names all.

    Without it pydantic reports an error of each branch, under a path that holds the branch's name.
    """
    message = f"Input should be {' or '.join(kind.tag for kind in kinds)}"
    return Discriminator(_kind_of_value, custom_error_type="kind", custom_error_message=message)


def wire_of(*structs: type[msgspec.Struct], without: Collection[str] = ()) -> type[msgspec.Struct]:
    """Return what travels of *structs*: all fields but those *without*, each required, times as RFC 3339 text."""
    fields = [(each.name, _sent(each)) for struct in structs for each in msgspec.structs.fields(struct)]
    made = [field for field in fields if field[0] not in without]
    return msgspec.defstruct(structs[0].__name__, made, frozen=True, kw_only=True)


def is_time(name: str) -> bool:
    """Return whether the field *name* holds a time, which the core has as milliseconds since the epoch."""
    return name == "at" or name.endswith("_at")


def _sent(field: FieldInfo) -> Any:
    if not is_time(field.name):
        return field.type
    return str | None if NoneType in get_args(field.type) else str


def _type_of(field: FieldInfo, narrowed: Any) -> Any:
    if narrowed is None:
        return _accepted(field.type)
    return Union[narrowed, None] if NoneType in get_args(field.type) else narrowed  # noqa: UP007 - made here


def _accepted(type_: Any) -> Any:
    """Return what a body accepts for a field of *type_*: lists for tuples, bodies for structs."""
    arguments = get_args(type_)
    match get_origin(type_):
        case None if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
            return _nested(type_)
        case origin if origin is tuple:
            return list[_accepted(arguments[0])]  # pyright: ignore[reportInvalidTypeArguments] - computed
        case origin if origin in (Union, UnionType):
            types = [_accepted(each) for each in arguments if each is not NoneType]
            wanted = types[0] if len(types) == 1 else one_of(*types)
            return Union[wanted, None] if NoneType in arguments else wanted  # noqa: UP007 - made here
        case _:
            return type_


@cache
def _nested(struct: type[msgspec.Struct]) -> type[Derived]:
    return body_of(struct)


def _default(field: FieldInfo, *, partial: bool) -> Any:
    if partial:
        return Field(default_factory=lambda: None)
    if field.required:
        return Field()
    default = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    plain = msgspec.json.decode(msgspec.json.encode(default))
    return Field(default=plain, validate_default=isinstance(default, msgspec.Struct))


def _kind_of_type(type_: Any) -> Tag:
    origin = get_origin(type_)
    if origin is Annotated:
        return _kind_of_type(get_args(type_)[0])
    if origin is Literal:
        return KINDS[type(get_args(type_)[0])]
    plain = origin or type_
    return KINDS[dict if issubclass(plain, BaseModel) else plain]


def _kind_of_value(value: Any) -> str | None:
    kind = KINDS.get(dict if isinstance(value, BaseModel) else type(value))
    return kind and kind.tag
