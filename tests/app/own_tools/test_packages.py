"""Own tools in packages: entry points of the group `parley.tools`."""

import sys
from pathlib import Path

import pytest

from agent_core.tools.toolset import Scope
from app.own_tools import OwnTools

FILE = '''
from parley import tool

@tool
def refund() -> str:
    """Refund."""
    return "done"

@tool
def ship() -> str:
    """Ship."""
    return "done"

both = [refund, ship]
nothing = 3
'''


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Install a package with entry points."""

    def install(**points: str) -> OwnTools:
        info = tmp_path / "shop_tools-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shop-tools\nVersion: 1.0\n")
        lines = [f"{name} = {value}" for name, value in points.items()]
        (info / "entry_points.txt").write_text("\n".join(["[parley.tools]", *lines, ""]))
        (tmp_path / "shop_tools_of_a_test.py").write_text(FILE)
        monkeypatch.syspath_prepend(tmp_path)
        tools = OwnTools(tmp_path / "none", reserved=())
        tools.load()
        return tools

    yield install
    sys.modules.pop("shop_tools_of_a_test", None)


@pytest.mark.parametrize(
    ("value", "names"), [(":refund", ["refund"]), (":both", ["refund", "ship"]), ("", ["refund", "ship"])]
)
async def test_an_entry_point_gives_a_tool_a_list_or_a_module(package, value, names):
    """Whatever the entry point names, its tools are there, and their place is the package."""
    tools = package(shop=f"shop_tools_of_a_test{value}")
    assert (sorted(await tools.tools(Scope())), tools.problems) == (names, ())
    assert tools.places["refund"] == "entry point `shop` of `shop-tools`"


async def test_a_broken_entry_point_is_named_and_the_others_serve(package):
    """The line names the entry point, its package and what to do."""
    tools = package(
        a="shop_tools_of_a_test:nothing",
        b="not_there_at_all:x",
        c="shop_tools_of_a_test:ship",
        d="shop_tools_of_a_test:x",
    )
    assert sorted(await tools.tools(Scope())) == ["ship"]
    assert [str(each).partition(" of ")[0] for each in tools.problems] == [f"entry point `{name}`" for name in "abd"]
    assert "`shop_tools_of_a_test:nothing` is no tool, no list of tools" in str(tools.problems[0])
    assert "there is no module `not_there_at_all`; install its package" in str(tools.problems[1])
