"""How an axis writes its amounts: the formats of d3 that all surfaces can write; pure."""

import re
from typing import Any

from agent_core.renders.vega.notplain import NotPlain
from agent_core.renders.vega.shapes import is_object

_D3 = re.compile(r"(?P<sign>\$)?,?(?:\.(?P<decimals>[0-9]))?(?P<trims>~)?(?P<kind>[%fds]?)")


def amount_format(definition: Any) -> str | None:
    """Return the format of the axis of an amount as one of `formats.NUMERIC`, None when it has none.

    `%`, `$` (the currency of d3), `,`, `.2f` and `d` are read. `s`, which only shortens numbers,
    is left to each surface. Raises `NotPlain` on all others.
    """
    axis = definition.get("axis")
    if not is_object(axis):
        return None
    format = axis.get("format")
    if axis.get("formatType", "number") not in ("number", None):
        raise NotPlain
    if format is None or format == "":
        return None
    match = _D3.fullmatch(format) if isinstance(format, str) else None
    if match is None:
        raise NotPlain
    return _named(*match.group("sign", "decimals", "trims", "kind"))


def _named(sign: str | None, decimals: str | None, trims: str | None, kind: str) -> str:
    if (kind == "" and decimals is not None) or (kind == "%" and sign is not None):
        raise NotPlain  # significant digits, and `$12%`
    name = "percent" if kind == "%" else "number" if sign is None else "currency:USD"
    if kind == "d":
        return f"{name}.0"
    fixes = kind in ("%", "f") and decimals is not None and trims is None
    return f"{name}.{decimals}" if fixes else name
