"""An OpenAPI document: read within bounds, and its references looked up."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from agent_core import ConfigError
from app.bounded_yaml import InvalidYaml, parse_yaml

LARGEST = 20_000_000
"""Bytes of a document; the largest that are published have ten million."""
_MOST_VALUES = 500_000
"""Values of a document in YAML, which is a hundred times slower to read than JSON."""
_LONGEST_CHAIN = 20
METHODS = ("get", "head", "post", "put", "patch", "delete")
Json = dict[str, Any]


class Unresolved(Exception):
    """A reference that leads nowhere in this document; the message names it."""


@dataclass(frozen=True, slots=True)
class Document:
    """What a document holds."""

    root: Json
    resolver: Any

    @property
    def title(self) -> str:
        """Return the name of the API."""
        return str(_object(self.root.get("info")).get("title") or "api")

    def operations(self) -> Iterator[tuple[str, str, Json, Json]]:
        """Yield the path, the method, what is said of the path, and what of the operation."""
        for path, given in _object(self.root.get("paths")).items():
            item = self.resolved(given)
            for method in METHODS:
                if isinstance(operation := item.get(method), dict):
                    yield str(path), method, item, cast("Json", operation)

    def resolved(self, given: Any) -> Json:
        """Return the object *given*, or the one that it refers to with its own fields added; raises `Unresolved`."""
        found, more = _object(given), dict[str, Any]()
        for _ in range(_LONGEST_CHAIN):
            reference = found.get("$ref")
            if not isinstance(reference, str):
                return {**found, **more}
            more = {**{name: each for name, each in found.items() if name != "$ref"}, **more}
            found = self.looked_up(reference)
        raise Unresolved("a reference leads to a reference, and so on without end")

    def looked_up(self, reference: str) -> Json:
        """Return the object that *reference* names; raises `Unresolved`."""
        from referencing.exceptions import Unresolvable  # noqa: PLC0415 - only an import needs it

        try:
            return _object(self.resolver.lookup(reference).contents)
        except Unresolvable:
            why = "" if reference.startswith("#") else ", which is in another document; bundle them into one"
            raise Unresolved(f"there is no `{reference[:200]}`{why}") from None


def document_of(text: bytes, name: str) -> Document:
    """Return the document that *text* is, JSON or YAML; raises ConfigError."""
    from referencing import Registry  # noqa: PLC0415 - as above
    from referencing.jsonschema import DRAFT202012  # noqa: PLC0415 - as above

    root = _read(text, name)
    version = str(root.get("openapi", ""))
    if not version.startswith(("3.0", "3.1")):
        said = f"says {version or root.get('swagger') or 'nothing of a version'}"
        raise ConfigError(f"{name}: is no OpenAPI 3.0 or 3.1 document, it {said}; convert it first.")
    registry: Any = Registry().with_resource("", DRAFT202012.create_resource(root))
    return Document(root, registry.resolver())


def _read(text: bytes, name: str) -> Json:
    if len(text) > LARGEST:
        raise ConfigError(f"{name}: has more than {LARGEST:,} bytes.")
    try:
        written = text.decode("utf-8-sig")
        found = json.loads(written) if written.lstrip().startswith("{") else parse_yaml(written, _MOST_VALUES)
    except UnicodeDecodeError:
        raise ConfigError(f"{name}: is not UTF-8 text.") from None
    except (InvalidYaml, ValueError) as error:
        raise ConfigError(f"{name}: cannot be read as JSON or YAML ({str(error)[:200]}).") from None
    except RecursionError:
        raise ConfigError(f"{name}: is nested too deeply.") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{name}: is no OpenAPI document, but {type(found).__name__}.")
    return cast("Json", found)


def _object(value: Any) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}
