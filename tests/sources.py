"""Our Python files and their syntax, for rules about the code."""

import ast
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("agent_core", "app", "channels", "migrations", "parley")
# Everything generated, fetched or kept at run time: at the root, and anywhere.
FOREIGN = {".git", ".venv", "data", "artifacts", "build", "dist", "htmlcov"}
FOREIGN |= {".ruff_cache", ".pytest_cache", ".hypothesis", ".import_linter_cache"}
FETCHED = {"node_modules", "__pycache__"}


@contextmanager
def kept() -> Iterator[None]:
    """Keep what is parsed for as long as this lasts, and not after it.

    It is millions of nodes: the garbage collector would look at all of them again and again.
    """
    gc.disable()
    try:
        yield
    finally:
        nodes.cache_clear()
        gc.enable()


def sources(*folders: str, generated: bool = False) -> list[Path]:
    """List our Python files, revisions of the database only when *generated*."""
    found = (path for folder in folders or (*PACKAGES, "tests") for path in walk(ROOT / folder))
    return [
        path
        for path in sorted(found)
        if path.suffix == ".py" and (generated or not name(path).startswith("migrations/versions/"))
    ]


@cache
def walk(folder: Path) -> tuple[Path, ...]:
    found: list[Path] = []
    for parent, folders, files in os.walk(folder):
        skipped = FETCHED | FOREIGN if Path(parent) == ROOT else FETCHED
        folders[:] = [each for each in folders if each not in skipped]
        # In a worktree of Git `.git` is a file.
        found += [Path(parent, file) for file in files if file not in skipped and not file.endswith(".pyc")]
    return tuple(path for path in found if path.is_file())


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def lines(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines()


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of a module but the contexts of names, the root first.

    `ast.walk` takes three times as long, and to walk costs more than all that is done with the nodes.
    """
    found: list[ast.AST] = [ast.parse(path.read_text("utf-8"), name(path))]
    for node in found:  # it grows
        for value in vars(node).values():
            if isinstance(value, list):
                found += [each for each in value if isinstance(each, ast.AST)]
            elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                found.append(value)
    return tuple(found)


def of_type(path: Path, *types: type[ast.AST]) -> Iterator:
    return (node for node in nodes(path) if isinstance(node, types))
