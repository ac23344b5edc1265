"""Endpoints: the named providers of PARLEY_PROVIDERS, each a record of where its models are asked and with what."""

import difflib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast, get_args

from dotenv import dotenv_values
from pydantic import SecretStr

from agent_core import ConfigError
from agent_core.providers.models import Vision
from app.bounded_yaml import InvalidYaml, read_yaml
from app.setting_texts import web_address

ProviderKind = Literal["anthropic", "openai", "openai-compatible"]
KINDS: tuple[ProviderKind, ...] = get_args(ProviderKind)
DEFAULT_FILE = "providers.yaml"
SETTING = "PARLEY_PROVIDERS"
NAMES = "2 to 40 small letters, digits, `-` and `_`, beginning with a letter"
_NAME = re.compile(r"[a-z][a-z0-9_-]{1,39}")
_RESERVED = frozenset({"demo"})
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_OWN_HEADERS = frozenset(
    (
        "accept",
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "host",
        "transfer-encoding",
    )
)
_FIELDS = ("kind", "base_url", "key", "headers", "query", "vision")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where models of a *kind* of API are asked, and with what; what may be a secret is never shown.

    Without *base_url* it is the vendor's own. *headers* and *query* go with every request. *needs* is what to set when
    its server refuses the key; *lacks* what to set before it can be asked at all, the variables with their places.
    *vision* is whether its models see pictures, or the names of those that do; None: what is known of them.
    """

    kind: ProviderKind
    base_url: str | None = None
    key: SecretStr | None = None
    headers: Mapping[str, SecretStr] = field(default_factory=dict[str, SecretStr])
    query: Mapping[str, SecretStr] = field(default_factory=dict[str, SecretStr])
    needs: str = ""
    lacks: str = ""
    vision: Vision | None = None


def read_endpoints(setting: str | None, env_file: Path | None) -> dict[str, Endpoint]:
    """Return the named providers: of *setting*, a file's path or a JSON object, or of `providers.yaml` if there is one.

    `${NAME}` in a key, a header or a query is taken from the environment, or from *env_file*; where it is not set, the
    provider lacks it. Raises `ConfigError` with one line that names the place, the entry and what to do, and holds no
    value.
    """
    where, providers = _source(setting)
    if not isinstance(providers, dict):
        raise ConfigError(f"{where}: gives no providers; write `name: {{kind: …, key: …}}` for each.")
    filed: Mapping[str, str | None] = dotenv_values(env_file) if env_file else {}

    def variable(name: str) -> str:
        return (os.environ.get(name) or filed.get(name) or "").strip()

    entries = cast("dict[Any, Any]", providers)
    return {str(name): _endpoint(f"{where}: `{name}`", str(name), each, variable) for name, each in entries.items()}


def _source(setting: str | None) -> tuple[str, Any]:
    """Return where the providers are written, and what is there: nothing when no file is named and none is there."""
    if setting is not None and setting.lstrip().startswith("{"):
        try:
            return SETTING, json.loads(setting)
        except (ValueError, RecursionError):
            raise ConfigError(f"{SETTING}: is no JSON object; correct it, or name a file.") from None
    path = Path(setting or DEFAULT_FILE)
    if setting is None and not path.exists():
        return str(path), {}
    try:
        return str(path), read_yaml(path) or {}
    except OSError as error:
        raise ConfigError(f"{SETTING}: `{path}` cannot be read ({error.strerror}); name a file of providers.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8 text; save it as UTF-8.") from None
    except InvalidYaml as error:
        raise ConfigError(f"{path}: {error}; correct the YAML.") from None


def _endpoint(where: str, name: str, value: Any, variable: Callable[[str], str]) -> Endpoint:
    if not _NAME.fullmatch(name) or name in _RESERVED:
        raise ConfigError(f"{where}: is no name of a provider; give {NAMES}.")
    if not isinstance(value, dict):
        raise ConfigError(
            f"{where}: is no record; give it `kind`, and `base_url`, `key`, `headers`, `query`, `vision` as needed."
        )
    entry = cast("dict[Any, Any]", value)
    if strange := next((str(each) for each in entry if each not in _FIELDS), None):
        near = difflib.get_close_matches(strange, _FIELDS, 1)
        remedy = f"did you mean `{near[0]}`?" if near else f"there are {', '.join(f'`{each}`' for each in _FIELDS)}."
        raise ConfigError(f"{where}: has no field `{strange[:40]}`; {remedy}")
    kind = _kind(where, name, entry.get("kind"))
    url = _address(where, entry.get("base_url"))
    key = entry.get("key")
    made = Endpoint(
        kind=kind,
        base_url=url,
        key=None if key is None else SecretStr(_word(f"{where}: `key`", _filled(f"{where}: `key`", key, variable))),
        headers=_headers(where, entry.get("headers"), variable),
        query=_texts(where, "query", entry.get("query"), variable),
        needs=f"`key` of {where}",
        lacks=_unset(where, entry, variable),
        vision=_vision(where, entry.get("vision")),
    )
    if made.key is None and not made.headers and (kind == "anthropic" or url is None):
        raise ConfigError(f"{where}: has neither `key` nor `headers`; give a key, such as `key: ${{SOME_KEY}}`.")
    if kind == "openai-compatible" and url is None:
        raise ConfigError(f"{where}: has no `base_url`; give its server's, such as http://localhost:11434/v1.")
    return made


def _kind(where: str, name: str, kind: Any) -> ProviderKind:
    if kind not in KINDS:
        raise ConfigError(f"{where}: `kind` must be one of {', '.join(f'`{each}`' for each in KINDS)}.")
    if name in KINDS and name != kind:
        raise ConfigError(f"{where}: is of the kind `{kind}`; give it another name than that of a kind.")
    return kind


def _address(where: str, url: Any) -> str | None:
    if url is None:
        return None
    try:
        return web_address(str(url))
    except ValueError:
        remedy = "give one such as https://example.com/v1, without a name, password or query in it (see `query`)"
        raise ConfigError(f"{where}: `base_url` is no http address; {remedy}.") from None


def _vision(where: str, value: Any) -> Vision | None:
    match value:
        case None | bool():
            return value
        case [*names] if all(isinstance(name, str) and name.strip() for name in names):
            return tuple(map(str, names))
        case _:
            remedy = "give `true`, `false`, or a list of the names of models that see pictures, such as [qwen-vl*]"
            raise ConfigError(f"{where}: `vision` says not which models see pictures; {remedy}.")


def _headers(where: str, fields: Any, variable: Callable[[str], str]) -> dict[str, SecretStr]:
    headers = _texts(where, "headers", fields, variable)
    for name, value in headers.items():
        if not _HEADER.fullmatch(name) or name.lower() in _OWN_HEADERS:
            raise ConfigError(f"{where}: `headers`: `{name[:40]}` cannot be set; take it out.")
        text = value.get_secret_value()
        if not (text.isascii() and text.isprintable()):
            raise ConfigError(f"{where}: `headers.{name}` is not one line of ASCII; correct it.")
    return headers


def _texts(where: str, name: str, fields: Any, variable: Callable[[str], str]) -> dict[str, SecretStr]:
    """Return *fields* as texts by name; they may be secrets."""
    if fields is None:
        return {}
    if not isinstance(fields, dict):
        raise ConfigError(f"{where}: `{name}` gives no names and texts; write `name: text` for each.")
    entries = cast("dict[Any, Any]", fields)
    return {str(key): SecretStr(_filled(f"{where}: `{name}.{key}`", value, variable)) for key, value in entries.items()}


def _filled(where: str, template: Any, variable: Callable[[str], str]) -> str:
    """Return *template* with variables of the environment in the place of their names; one not set stays."""
    if not isinstance(template, str):  # YAML makes a date of 2024-10-21, and a number of 1.0
        raise ConfigError(f"{where}: is no text; write it in quotes.")
    text = _VARIABLE.sub(lambda match: variable(match[1]) or match[0], template).strip()
    if not text:
        raise ConfigError(f"{where}: is empty; give a text, or take it out.")
    return text


def _unset(where: str, entry: Mapping[str, Any], variable: Callable[[str], str]) -> str:
    """Return the variables that the texts of *entry* name and that are not set, each with its place."""
    texts = {"key": entry.get("key") or ""}
    for group in ("headers", "query"):
        texts |= {f"{group}.{name}": text for name, text in (entry.get(group) or {}).items()}
    references = [(name, place) for place, text in texts.items() for name in _VARIABLE.findall(text)]
    return " and ".join(f"{name} ({where}: `{place}`)" for name, place in references if not variable(name))


def _word(where: str, text: str) -> str:
    if not (text.isascii() and text.isprintable()) or " " in text:
        raise ConfigError(f"{where}: is not one word; give the key as its provider shows it.")
    return text
