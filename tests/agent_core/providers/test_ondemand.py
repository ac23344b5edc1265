"""An SDK's packages on demand: what is asked for is imported, the rest waits, and nothing is missing."""

import importlib
import importlib.util
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import pytest

from agent_core.providers import ondemand
from agent_core.providers.ondemand import on_demand

INIT = """
from ._client import Client as Client, helper as tool
from vendor_of_tests._rare import Rare
from ._client import wrapped
from . import types

wrapped = ("wrapped", wrapped)
EXECUTED = True
__all__ = ["Client", "EXECUTED", "Rare", "tool", "types", "wrapped"]
"""
FILES = {
    "__init__.py": INIT,
    "_client.py": "from . import _errors\nfrom .types import Small\n\nclass Client: ...\nhelper = 1\nwrapped = 2\n",
    "_errors.py": "",
    "_rare.py": "class Rare: ...\n",
    "types/__init__.py": "from .small import Small\nfrom .large import Large\n",
    "types/small.py": "class Small: ...\n",
    "types/large.py": "class Large: ...\n",
    "tracing/__init__.py": "from .spans import Span as Span, traced as traced\nfrom .late import ended as ended\n",
    "tracing/spans.py": "class Span: ...\ndef traced(): ...\n",
    "tracing/late.py": "from ..types.large import Large\ndef ended(*, of): return Large, of\n",
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Give the name of a package that can be imported."""
    name = "vendor_of_tests"
    write(tmp_path / name, FILES)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield name
    for module in loaded(name):
        del sys.modules[module]


def write(folder: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")


def loaded(package: str) -> set[str]:
    return {name for name in sys.modules if f"{name}.".startswith(f"{package}.")}


def bare(package: str, *names: str, uncalled: str = "", of: str = "") -> Any:
    """Return *package*, or the one *of* that name in it, of which *names* were asked."""
    with on_demand(package, uncalled=(f"{package}.{uncalled}",)):
        module = importlib.import_module(f"{package}.{of}" if of else package)
        for name in names:
            getattr(module, name)
        return module


def test_asked(package):
    """A name brings the module that has it, and what that needs, and no other."""
    client = bare(package, "Client").Client
    assert client.__module__ == f"{package}._client"
    assert loaded(package) == {package, *(f"{package}.{m}" for m in ("_client", "_errors", "types", "types.small"))}


def test_absolute(package):
    """It does not matter how a package names its own modules."""
    assert bare(package, "Rare").Rare.__module__ == f"{package}._rare"
    assert f"{package}._client" not in loaded(package)


def test_renamed(package):
    """A name that the package gives to something is the one to ask for."""
    assert bare(package).tool == 1


@pytest.mark.parametrize("name", ["EXECUTED", "__all__", "wrapped"])
def test_executed(package, name):
    """What the package makes itself is there too, made by the package."""
    found = getattr(bare(package), name)
    assert found in (True, ("wrapped", 2), ["Client", "EXECUTED", "Rare", "tool", "types", "wrapped"])
    assert type(sys.modules[package]) is type(sys)


def test_same_objects(package):
    """What was taken alone is the very object that the whole package has."""
    module = bare(package)
    client, small = module.Client, module.types.Small
    assert module.EXECUTED
    assert (module.Client, module.types.Small) == (client, small)


def test_later_imports(package):
    """Whoever imports from the package later gets everything as ever."""
    bare(package)
    found: dict[str, object] = {}
    exec(f"from {package} import *\nfrom {package}.types import Large", found)  # noqa: S102 - no function may import *
    assert {"Client", "EXECUTED", "Rare", "Large"} <= set(found)


def test_missing(package):
    """What the package does not have is an AttributeError, as with every module."""
    module = bare(package)
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = module.nothing_of_the_kind


def test_order_that_matters(package, tmp_path):
    """A module that can only be imported by its package is imported by its package."""
    write(tmp_path / package, {"_client.py": f"from {package} import EXECUTED_FIRST\nclass Client: ...\n"})
    write(tmp_path / package, {"__init__.py": "EXECUTED_FIRST = 1\nfrom ._client import Client\n"})
    assert bare(package).Client.__module__ == f"{package}._client"


def test_left_alone(package):
    """Packages that were not named, and those imported before or after, are imported as ever."""
    with on_demand("another"):
        assert importlib.import_module(package).EXECUTED
    module = bare(package)
    assert type(module) is type(sys)


def test_uncalled(package):
    """A function that waits for its call executes its module with the first one, and is that function to its caller."""
    tracing = bare(package, "ended", uncalled="tracing.late", of="tracing")
    assert f"{package}.types" not in loaded(package)
    large, of = tracing.ended(of=1)
    assert (large.__name__, large.__module__, of) == ("Large", f"{package}.types.large", 1)
    assert tracing.ended(of=2) == (large, 2)


def test_only_functions_wait(package):
    """What is no function, as a class from which somebody may derive, executes its module, and is then as ever."""
    tracing = bare(package, "traced", uncalled="tracing.spans", of="tracing")
    spans, waiting = tracing.spans, tracing.traced
    assert isinstance(tracing.Span, type)
    assert (type(spans), spans.traced.__module__) == (type(sys), f"{package}.tracing.spans")
    assert waiting() is spans.traced() is None


def test_nothing_of_the_kind_in_what_waits(package):
    """What a module that waits does not have is an AttributeError too."""
    tracing = bare(package, "ended", uncalled="tracing.late", of="tracing")
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = tracing.late.nothing_of_the_kind


@pytest.mark.parametrize("uncalled", ["", "slow"])
def test_two_threads(package, tmp_path, uncalled):
    """Whoever asks while another thread executes a module waits for the end of it."""
    begun, go = threading.Event(), threading.Event()
    sys.modules[f"{package}_gates"] = SimpleNamespace(begun=begun, go=go)  # type: ignore[assignment]
    text = f"import {package}_gates as gates\ngates.begun.set()\ngates.go.wait(20)\ndef late(): return 1\nLAST = 2\n"
    write(tmp_path / package, {"slow/__init__.py" if not uncalled else "slow.py": text})
    slow = bare(package, uncalled=uncalled, of="slow")
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(lambda: slow.LAST)
        assert begun.wait(20)
        second = threads.submit(lambda: (go.set(), slow.late(), slow.LAST)[1:])
        assert (first.result(20), second.result(20)) == (2, (1, 2))
    del sys.modules[f"{package}_gates"]


def test_two_threads_that_wait_for_each_other(package, tmp_path, monkeypatch):
    """An import that waits for a package which waits for that import gets on without what is not there yet."""
    monkeypatch.setattr(ondemand, "_PATIENCE", 0.2)
    gates = SimpleNamespace(package=threading.Event(), module=threading.Event())
    sys.modules[f"{package}_gates"] = gates  # type: ignore[assignment]
    both = f"import {package}_gates as gates\n"
    waits = "gates.package.set()\ngates.module.wait(20)\nfrom . import crossed\nLAST = 2\n"
    asks = f"gates.module.set()\ngates.package.wait(20)\nimport {package}\nFOUND = getattr({package}, 'LAST', None)\n"
    write(tmp_path / package, {"__init__.py": both + waits, "crossed.py": both + asks})
    whole = bare(package)
    with ThreadPoolExecutor(2) as threads:
        last = threads.submit(lambda: whole.LAST)
        crossed = threads.submit(importlib.import_module, f"{package}.crossed")
        assert (last.result(20), crossed.result(20).FOUND) == (2, None)
    del sys.modules[f"{package}_gates"]


def test_a_failure_is_not_the_end(package, tmp_path, monkeypatch):
    """A module that cannot be executed says why, each time, until it can."""
    write(tmp_path / package, {"slow.py": "import os\nLAST = os.environ['NEEDED_BY_TESTS']\n"})
    slow = bare(package, uncalled="slow", of="slow")
    for _ in range(2):
        with pytest.raises(KeyError, match="NEEDED_BY_TESTS"):
            _ = slow.LAST
    monkeypatch.setenv("NEEDED_BY_TESTS", "here")
    assert slow.LAST == "here"


def test_asked_by_what_it_imports(package, tmp_path):
    """What a module imports while it is executed finds there what it has by then, and no more."""
    other = f"from {package} import slow\nFOUND = (slow.FIRST, hasattr(slow, 'LAST'))\n"
    write(tmp_path / package, {"slow.py": "FIRST = 1\nfrom ._other import FOUND\nLAST = 2\n", "_other.py": other})
    slow = bare(package, uncalled="slow", of="slow")
    assert (slow.LAST, slow.FOUND) == (2, (1, False))


def test_elsewhere_functions_come_at_once(package):
    """Functions of modules that were not named are the very functions."""
    tracing = bare(package, "ended", of="tracing")
    assert tracing.ended.__module__ == f"{package}.tracing.late"


@pytest.mark.parametrize(
    ("sdk", "client", "share"), [("anthropic", "AsyncAnthropic", 0.12), ("openai", "AsyncOpenAI", 0.05)]
)
def test_sdks(sdk, client, share):
    """Of an SDK the client and what it needs are imported; all that the SDK exports is there when asked for."""
    code = f"""
        import asyncio, sys
        from agent_core.providers.{sdk} import {sdk}

        async def main():
            provider = {sdk}(api_key="none")
            await provider.prepare()
            await provider.close()

        asyncio.run(main())
        import {sdk}
        print(sum(name.startswith("{sdk}.") for name in sys.modules), type({sdk}).__name__)
        print({sdk}.{client}.__name__, all(hasattr({sdk}, name) for name in {sdk}.__all__))
    """
    command = [sys.executable, "-c", dedent(code)]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout.split()
    spec = importlib.util.find_spec(sdk)
    assert spec is not None
    assert spec.origin is not None
    files = sum(1 for _ in Path(spec.origin).parent.rglob("*.py"))
    assert int(said[0]) < share * files
    assert said[1:] == ["_Package", client, "True"]
