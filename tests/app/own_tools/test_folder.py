"""Own tools in a folder: files are loaded by their path; what is wrong with one is a line with its remedy."""

import os
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import structlog

import parley  # noqa: F401 - so that it is among the modules of the process
from agent_core.errors import ConfigError
from agent_core.messages import text_of as words
from agent_core.testing import FakeClock
from agent_core.tools.base import CallContext, Done, Outcome
from agent_core.tools.functions import FunctionTool
from agent_core.tools.toolset import Scope
from app import own_tools
from app.own_tools import MAX_BYTES, MAX_FILES, OwnTools
from tests.agent_core.stage import ANN

HEAD = "from parley import CallContext, tool\n"


def a_tool(name: str, result: str = "'ok'", before: str = "") -> str:
    """Return a file that defines the tool *name*, which returns *result*."""
    return f'{HEAD}{before}\n@tool\ndef {name}() -> str:\n    """Return it."""\n    return {result}\n'


def own(folder: Path, **files: str) -> OwnTools:
    """Write *files* into *folder* and return its tools, loaded."""
    for stem, text in files.items():
        (folder / f"{stem}.py").write_text(text, "utf-8")
    tools = OwnTools(folder, reserved={"calculate"})
    tools.load()
    return tools


async def use(tools: OwnTools, name: str) -> Outcome:
    """Call a tool without arguments."""
    found = (await tools.tools(Scope()))[name]
    context = CallContext(
        call="c", session="s", run="r", actor=ANN, channel="api", clock=FakeClock(), progress=lambda _: None
    )
    return await found.call({}, context)


async def text_of(tools: OwnTools, name: str) -> str:
    outcome = await use(tools, name)
    assert isinstance(outcome, Done)
    return words(outcome.parts)


async def test_every_tool_of_every_file_is_there(tmp_path):
    """All tools of all Python files of the folder count; other files and hidden ones are not looked at."""
    (tmp_path / ".#orders.py").symlink_to("a lock of an editor")
    (tmp_path / "notes.txt").write_text("}{")
    (tmp_path / "__init__.py").write_text("raise SystemExit")
    tools = own(tmp_path, orders=a_tool("find") + a_tool("refund"), **{"my-rooms": a_tool("book", "__name__")})
    assert not tools.problems
    assert sorted(await tools.tools(Scope())) == ["book", "find", "refund"]
    assert tools.files == {"my-rooms": 1, "orders": 2}
    assert tools.places["book"] == f"{tmp_path / 'my-rooms.py'}:3"
    assert (await text_of(tools, "book")).startswith("parley_tools_")


@pytest.mark.parametrize("name", ["app", "channels", "migrations", "agent_core", "parley", "json", "tool"])
async def test_a_file_can_have_any_name(tmp_path, name):
    """A file that has the name of a package, ours or another's, neither replaces it nor is replaced by it."""
    before = sys.modules.get(name)
    tools = own(tmp_path, **{name: a_tool("find", "str(HERE)", "import json\nHERE = 1")})
    assert not tools.problems
    assert await text_of(tools, "find") == "1"
    assert sys.modules.get(name) is before


async def test_files_import_each_other_with_a_dot(tmp_path):
    """`from .other import name` finds the file beside, whatever the order; what begins with `_` gives no tools."""
    helper = a_tool("hidden") + "\nSHOP = 'Roof & Co'\n"
    tools = own(
        tmp_path,
        a=a_tool("first", "SHOP + later.__name__[-2:]", "from ._json import SHOP\nfrom . import z as later"),
        _json=helper,
        z=a_tool("last", "json.dumps(1)", "import json"),
    )
    assert not tools.problems
    assert sorted(await tools.tools(Scope())) == ["first", "last"]
    assert (await text_of(tools, "first"), await text_of(tools, "last")) == ("Roof & Co.z", "1")


BROKEN = [
    ("x = (", 1, "this is not Python: '(' was never closed; correct it."),
    ("\nimport stripe_not_here\n", 2, "there is no module `stripe_not_here`; install its package"),
    ("import fine\n", 1, "there is no module `fine`; for the file beside this one write `from .fine import …`."),
    ("from .absent import x\n", 1, "there is no file `absent.py` beside this one; correct the import."),
    ("from json import nothing\n", 1, "ImportError: cannot import name 'nothing' from 'json'"),
    ("\n\n1 / 0\n", 3, "ZeroDivisionError: division by zero; correct what the file does when it is loaded."),
    ("import sys\nsys.exit(3)\n", 2, "it ends the process when it is loaded (`sys.exit`)"),
    ("raise GeneratorExit\n", 1, "GeneratorExit; correct what the file does"),
    ("raise ValueError('x' * 9999)\n", 1, "ValueError: " + "x" * 287 + "…; correct"),
    (HEAD + "@tool\ndef f(x):\n    pass\n", 2, "`f` cannot be a tool: it has no docstring"),
    (HEAD + "@tool\ndef f(x):\n    '''Do it.'''\n", 2, "`f` cannot be a tool: it does not say the type of `x`"),
    (
        HEAD + "class K: ...\n@tool\ndef f(x: K):\n    '''Do it.'''\n",
        3,
        "`f` cannot be a tool: it has a parameter whose type JSON cannot hold",
    ),
    (HEAD + "@tool(name='with space')\ndef f():\n    '''Do it.'''\n", 2, "`with space` is no name for a tool"),
    (a_tool("calculate"), 3, "the tool `calculate` ships with Parley; give it another name"),
    (a_tool("find"), 3, "the tool `find` is defined at {0}/fine.py:3 too; give it another name"),
    ("from .other import x\n", 1, "it imports `other.py`, which cannot be loaded; correct that file."),
    ("\0", None, "null bytes"),
    ("from .wrong import nothing\n", 1, "ImportError: cannot import name 'nothing' from"),
]


@pytest.mark.parametrize(("text", "line", "said"), BROKEN)
async def test_a_broken_file_is_named_with_its_line_and_a_remedy(tmp_path, text, line, said):
    """The start ends with one line; a file that is whole gives its tools anyway."""
    (tmp_path / "other.py").mkdir()
    tools = own(tmp_path, fine=a_tool("find"), wrong=text)
    found = next(each for each in tools.problems if "wrong.py" in each.place)
    assert found.place == str(tmp_path / "wrong.py") + (f":{line}" if line else "")
    assert said.format(tmp_path) in found.text
    assert "\n" not in str(found)
    assert sorted(await tools.tools(Scope())) == ["find"]
    with pytest.raises(ConfigError, match=r"other\.py: is a folder"):
        tools.check()


@pytest.mark.parametrize("kind", ["folder", "pipe", "huge", "dangling", "circle"])
def test_what_is_no_file_of_code_is_named(tmp_path, kind):
    """A folder, a pipe, gigabytes and links to nothing are refused without being read."""
    path = tmp_path / "x.py"
    match kind:
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "huge":
            with path.open("wb") as file:
                file.truncate(1_000 * MAX_BYTES)
        case "dangling":
            path.symlink_to("nowhere.py")
        case "circle":
            path.symlink_to("x.py")
    tools = own(tmp_path, fine=a_tool("find"))
    assert [each.place for each in tools.problems] == [str(path)]
    assert tools.files == {"fine": 1}


async def test_links_to_files_are_followed(tmp_path):
    """A mounted folder, as an orchestrator makes it, consists of links."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "orders").write_text(a_tool("find"))
    (tmp_path / "orders.py").symlink_to("data/orders")
    tools = own(tmp_path)
    assert (tools.problems, tools.files) == ((), {"orders": 1})


def test_a_folder_of_something_else_is_refused(tmp_path):
    """A folder with more files than anyone writes tools is not executed; a missing one is empty unless it is named."""
    for n in range(MAX_FILES + 1):
        (tmp_path / f"m{n}.py").touch()
    (problem,) = own(tmp_path).problems
    assert "501 Python files are more than 500" in str(problem)
    missing = tmp_path / "nowhere"
    assert not own(missing).problems
    named = OwnTools(missing, reserved=(), required=True)
    named.load()
    with pytest.raises(ConfigError, match=f"PARLEY_TOOLS: there is no folder `{missing}`; make it"):
        named.check()


async def test_a_changed_file_is_taken_up_and_a_broken_one_keeps_its_tools(tmp_path):
    """A refresh loads what has changed; a file that breaks gives its former tools until it is whole again."""
    tools = own(tmp_path, orders=a_tool("find", "'one'"), rooms=a_tool("book"))
    assert not await tools.refresh()
    before = (await tools.tools(Scope()))["find"]
    (tmp_path / "orders.py").write_text(a_tool("find", "'two'"))
    assert await tools.refresh()
    assert await text_of(tools, "find") == "two"
    assert isinstance(before, FunctionTool)
    assert before() == "one"
    (tmp_path / "orders.py").write_text("x = (")
    (tmp_path / "rooms.py").write_text(a_tool("leave"))
    assert await tools.refresh()
    assert [each.place for each in tools.problems] == [f"{tmp_path / 'orders.py'}:1"]
    assert await text_of(tools, "find") == "two"
    assert sorted(await tools.tools(Scope())) == ["find", "leave"]
    (tmp_path / "orders.py").unlink()
    assert await tools.refresh()
    assert (sorted(await tools.tools(Scope())), tools.problems) == (["leave"], ())


COUNTS = "SEEN = []\ndef seen():\n    SEEN.append(1)\n    return str(len(SEEN))\n"


async def test_only_what_changed_is_loaded_again(tmp_path):
    """A file that did not change, nor what it imports, keeps its module with all that it holds."""
    tools = own(
        tmp_path,
        _base=COUNTS,
        bills=a_tool("bill", "seen()", COUNTS),
        orders=a_tool("find", "seen()", "from ._base import seen"),
        rooms=a_tool("book", "seen()", "from . import _base\nfrom .orders import seen"),
    )
    before = dict(await tools.tools(Scope()))
    assert [await text_of(tools, name) for name in ("find", "book", "bill")] == ["1", "2", "1"]
    (tmp_path / "more.py").write_text(a_tool("more", "seen()", "from ._base import seen"))
    assert await tools.refresh()
    assert await text_of(tools, "more") == "3", "what is new imports the module that is there"
    (tmp_path / "more.py").write_text("x = (")
    assert await tools.refresh()
    assert {name: found for name, found in (await tools.tools(Scope())).items() if name != "more"} == before
    assert not await tools.refresh(), "the broken file is as it was"
    (tmp_path / "orders.py").write_text(a_tool("find", "'new' + seen()", "from ._base import seen"))
    assert await tools.refresh()
    assert [await text_of(tools, name) for name in ("find", "book", "bill")] == ["new4", "5", "2"]
    (tmp_path / "_base.py").write_text(COUNTS + "# changed\n")
    assert await tools.refresh()
    assert [await text_of(tools, name) for name in ("find", "book", "bill")] == ["new1", "2", "3"]


@pytest.mark.parametrize("between", ["x = (", None], ids=["broken", "gone"])
async def test_a_file_that_is_as_it_was_again_is_not_loaded_again(tmp_path, between):
    """What is undone, or missing for a moment, leaves the modules as they were, of the files that import it too."""
    tools = own(tmp_path, _base=COUNTS, orders=a_tool("find", "seen()", "from ._base import seen"))
    assert await text_of(tools, "find") == "1"
    if between is None:
        (tmp_path / "_base.py").unlink()
    else:
        (tmp_path / "_base.py").write_text(between)
    assert await tools.refresh()
    assert "orders.py" in tools.problems[-1].place
    assert await text_of(tools, "find") == "2"
    (tmp_path / "_base.py").write_text(COUNTS)
    assert await tools.refresh()
    assert (tools.problems, await text_of(tools, "find")) == ((), "3")


async def test_files_that_import_each_other_late_change_together(tmp_path):
    """Two files that import each other inside functions are loaded again when either has changed."""
    late = "def name():\n    from .b import NAME\n    return NAME\n"
    other = "def find():\n    from .a import find\n    return find\nNAME = "
    tools = own(tmp_path, a=a_tool("find", "name()", late), b=f"{other}'one'")
    assert (tools.problems, await text_of(tools, "find")) == ((), "one")
    (tmp_path / "b.py").write_text(f"{other}'two'")
    assert await tools.refresh()
    assert (tools.problems, await text_of(tools, "find")) == ((), "two")


async def test_a_file_that_comes_later_is_found_by_those_that_looked_for_it(tmp_path):
    """An import that may fail is tried again once the file is there."""
    tools = own(tmp_path, a=a_tool("find", "X", "try:\n    from .b import X\nexcept ImportError:\n    X = 'none'"))
    assert await text_of(tools, "find") == "none"
    (tmp_path / "b.py").write_text("X = 'here'")
    assert await tools.refresh()
    assert await text_of(tools, "find") == "here"


async def test_modules_of_earlier_loads_are_forgotten(tmp_path):
    """However often a file changes, the process keeps the modules of the last two loads and those in use."""
    tools = own(tmp_path, a=a_tool("find"), b=a_tool("book"))
    found = (await tools.tools(Scope()))["find"]
    assert isinstance(found, FunctionTool)
    first = found.function.__module__.partition(".")[0]
    here = {name for name in sys.modules if name.startswith("parley_tools_")}
    for n in range(9):
        (tmp_path / "b.py").write_text(a_tool("book", f"'{n}'"))
        assert await tools.refresh()
    assert first in sys.modules
    assert len({name for name in sys.modules if name.startswith("parley_tools_")} - here) == 2 * 3


@pytest.mark.parametrize("fault", ["missing", "no folder", "too many"])
async def test_a_folder_that_cannot_be_read_leaves_its_tools(tmp_path, fault):
    """What was loaded goes on serving while the folder is not as it should be, and the fault is reported."""
    folder, aside = tmp_path / "tools", tmp_path / "aside"
    folder.mkdir()
    tools = own(folder, orders=a_tool("find", "seen()", COUNTS))
    assert await text_of(tools, "find") == "1"
    match fault:
        case "missing":
            folder.rename(aside)
        case "no folder":
            folder.rename(aside)
            folder.touch()
        case _:
            for n in range(MAX_FILES):
                (folder / f"m{n}.py").touch()
    assert await tools.refresh()
    assert [each.place for each in tools.problems] == [str(folder)]
    assert (tools.files, await text_of(tools, "find")) == ({"orders": 1}, "2")
    if fault == "too many":
        for n in range(MAX_FILES):
            (folder / f"m{n}.py").unlink()
    else:
        folder.unlink(missing_ok=True)
        aside.rename(folder)
    assert await tools.refresh()
    assert (tools.problems, await text_of(tools, "find")) == ((), "3")


MOVE = "make it the file `_helpers.py` beside this one, and write `from ._helpers import …`."


@pytest.mark.parametrize(
    ("place", "line", "said"),
    [
        ("helpers.py", "from helpers import x", "`helpers` is not in the folder of the tools"),
        ("helpers/__init__.py", "import helpers.shop", "`helpers` is not in the folder of the tools"),
        ("tools/helpers/shop.py", "from helpers.shop import x", "`tools/helpers` is a folder, and those are not"),
        ("tools/helpers/shop.py", "from .helpers.shop import x", "`tools/helpers` is a folder, and those are not"),
        ("tools/_helpers/shop.py", "from ._helpers import shop", "`tools/_helpers` is a folder, and those are not"),
    ],
)
def test_the_remedy_for_code_of_the_project_is_to_move_it(tmp_path, place, line, said):
    """A module of the project that is not among the tools is no package to install."""
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).write_text("x = 1")
    (tmp_path / "tools").mkdir(exist_ok=True)
    (problem,) = own(tmp_path / "tools", orders=line).problems
    assert said in problem.text
    assert problem.text.endswith(MOVE)


async def test_folders_with_code_are_logged_once(tmp_path):
    """Python files in a folder of the folder are not loaded, and the log says so; caches and data are no code."""
    for name in ("shop/a.py", "__pycache__/b.py", ".hidden/c.py", "data/d.json"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    tools = OwnTools(tmp_path, reserved=())
    with structlog.testing.capture_logs() as logs:
        await tools.refresh()
        await tools.refresh()
    assert [(each["event"], each["folder"]) for each in logs] == [
        ("tools.folder_not_loaded", str(tmp_path / "shop")),
    ]
    assert tools.unread == (str(tmp_path / "shop"),)


async def test_a_changed_helper_changes_the_files_that_import_it(tmp_path):
    """A file is loaded again when one that it imports has changed; a broken helper leaves its users as they were."""
    tools = own(tmp_path, _db="SHOP = 'one'", orders=a_tool("find", "SHOP", "from ._db import SHOP"))
    (tmp_path / "_db.py").write_text("SHOP = 'two'")
    assert await tools.refresh()
    assert await text_of(tools, "find") == "two"
    (tmp_path / "_db.py").write_text("SHOP = ")
    assert await tools.refresh()
    assert await text_of(tools, "find") == "two"
    assert [each.place for each in tools.problems] == [f"{tmp_path / '_db.py'}:1", f"{tmp_path / 'orders.py'}:2"]


async def test_a_tool_that_two_files_hold_is_one_tool(tmp_path):
    """A tool that another file imports is the same one, also while one of the two is served as it was before."""
    imports = "from .base import find\n"
    tools = own(tmp_path, base=a_tool("find"), more=imports)
    assert not tools.problems
    (tmp_path / "more.py").write_text(imports + "x = (")
    assert await tools.refresh()
    assert [each.place for each in tools.problems] == [f"{tmp_path / 'more.py'}:2"]


def test_what_failed_leaves_no_module(tmp_path):
    """A file that could not be loaded is not among the modules of the process."""
    own(tmp_path, failing="raise ValueError")
    assert not [name for name in sys.modules if name.startswith("parley_tools_") and name.endswith(".failing")]


def test_a_file_that_hangs_is_named(tmp_path, monkeypatch):
    """A file that is still being loaded after a while is logged by its name, from the start and from `doctor` alike."""
    monkeypatch.setattr(own_tools, "SLOW", 0.01)
    goes_on = threading.Event()
    monkeypatch.setattr(sys, "goes_on", goes_on, raising=False)
    said: list[dict[str, object]] = []

    def warn(event: str, **about: object) -> None:
        said.append({"event": event, **about})
        goes_on.set()

    monkeypatch.setattr(own_tools, "_log", SimpleNamespace(warning=warn))
    tools = own(tmp_path, slow=a_tool("one", before="import sys\nassert sys.goes_on.wait(60)\n"))
    assert tools.files == {"slow": 1}
    assert [(each["event"], each["file"]) for each in said] == [("tools.still_loading", str(tmp_path / "slow.py"))]
