"""An OpenAPI document: read within bounds, and its references looked up."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from agent_core import ConfigError
from app.bounded_yaml import InvalidYaml, parse_yaml

MAX_BYTES = 20_000_000
"""Bytes of a document; the largest that are published have ten million."""
_MAX_VALUES = 500_000
"""Values of a document in YAML, which is a hundred times slower to read than JSON."""
_MAX_CHAIN = 20
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
        for path, value in _object(self.root.get("paths")).items():
            item = self.resolved(value)
            for method in METHODS:
                if isinstance(operation := item.get(method), dict):
                    yield str(path), method, item, cast("Json", operation)

    def resolved(self, value: Any) -> Json:
        """Return the object *value*, or the one that it refers to with its own fields added; raises `Unresolved`."""
        schema, more = _object(value), dict[str, Any]()
        for _ in range(_MAX_CHAIN):
            reference = schema.get("$ref")
            if not isinstance(reference, str):
                return {**schema, **more}
            more = {**{name: each for name, each in schema.items() if name != "$ref"}, **more}
            schema = self.looked_up(reference)
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
        version_text = f"says {version or root.get('swagger') or 'nothing of a version'}"
        raise ConfigError(f"{name}: is no OpenAPI 3.0 or 3.1 document, it {version_text}; convert it first.")
    registry: Any = Registry().with_resource("", DRAFT202012.create_resource(root))
    return Document(root, registry.resolver())


def _read(text: bytes, name: str) -> Json:
    if len(text) > MAX_BYTES:
        raise ConfigError(f"{name}: has more than {MAX_BYTES:,} bytes.")
    try:
        written = text.decode("utf-8-sig")
        content = json.loads(written) if written.lstrip().startswith("{") else parse_yaml(written, _MAX_VALUES)
    except UnicodeDecodeError:
        raise ConfigError(f"{name}: is not UTF-8 text.") from None
    except (InvalidYaml, ValueError) as error:
        raise ConfigError(f"{name}: cannot be read as JSON or YAML ({str(error)[:200]}).") from None
    except RecursionError:
        raise ConfigError(f"{name}: is nested too deeply.") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{name}: is no OpenAPI document, but {type(content).__name__}.")
    return cast("Json", content)


def _object(value: Any) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}
