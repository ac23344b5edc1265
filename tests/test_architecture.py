"""Rules for the code: sizes, imports, names, and what it may disclose."""

import ast
import importlib
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from pydantic import AliasChoices

from tests.cases import for_each
from tests.sources import PACKAGES, ROOT, kept, lines, name, nodes, of_type, sources, walk

FILE_LINES = 400
FUNCTION_LINES = 40
TEST_FUNCTION_LINES = 80

HOOKS = {"meta_path", "path_hooks", "modules"}
CHANGES = {"setdefault", "update", "pop", "popitem", "clear", "__setitem__", "__delitem__"}
# The demonstration tells people where the product is used.
NAMES_SLACK = {"agent_core/providers/demo.py": "The same core speaks in Slack, on web pages and in a terminal."}
# A user's file is registered under its own private name, which nothing else has: classes in it are looked up there.
REGISTERS = {
    "app/own_tools/folder.py": (
        "sys.modules[self.package] = self._parent",
        "sys.modules[name] = module",
        "sys.modules.pop(name, None)",
    )
}
WIRE = "app/api/bodies/wire.py"
SHARED_NOUNS = {"Agent", "Feedback", "Message", "Tool", "Vote"}
"""Classes of which the core and the API have one each."""
ROLE_SUFFIX = re.compile(r"(Manager|Helper|Helpers|Util|Utils|Handler)$")


@pytest.fixture(scope="module", autouse=True)
def parsed() -> Iterator[None]:
    """Read each file once for all tests here."""
    with kept():
        yield


def test_no_file_is_longer_than_one_sitting():
    """Every Python file, tests included, has at most 400 lines; migrations are exempt."""
    long = {name(path): count for path in sources() if (count := len(lines(path))) > FILE_LINES}
    assert not long, f"split these, a module owns one noun: {long}"


def test_no_function_is_longer_than_one_screen():
    """A function has at most 40 lines, a test's function 80."""
    long = {}
    for path in sources():
        limit = TEST_FUNCTION_LINES if name(path).startswith("tests/") else FUNCTION_LINES
        for node in of_type(path, ast.FunctionDef, ast.AsyncFunctionDef):
            if (count := (node.end_lineno or node.lineno) - node.lineno + 1) > limit:
                long[f"{name(path)}:{node.lineno} {node.name}"] = count
    assert not long, f"split these: {long}"


def test_classes_are_named_after_what_they_are():
    """No class is called Manager, Helper, Utils or Handler, and no module utils or helpers."""
    bad = [
        f"{name(path)}:{node.lineno} {node.name}"
        for path in sources()
        for node in of_type(path, ast.ClassDef)
        if ROLE_SUFFIX.search(node.name)
    ]
    bad += [name(path) for path in sources() if path.stem in {"utils", "util", "helpers", "helper"}]
    assert not bad, f"name these after the noun they own: {bad}"


def test_class_names_are_unique():
    """A class name is defined once, but for objects of the API that share their noun with a value of the core."""
    modules: dict[str, list[str]] = {}
    for path in sources("agent_core", "channels", "app"):
        for node in of_type(path, ast.ClassDef):
            modules.setdefault(node.name, []).append(name(path))
    shared = {noun: paths for noun, paths in modules.items() if len(paths) > 1}
    assert not {noun: paths for noun, paths in shared.items() if noun not in SHARED_NOUNS}
    assert all(WIRE in paths for paths in shared.values())


def test_class_names_of_the_tests_are_unique():
    """What tests are built with has one vocabulary: a name stands for one class, whichever folder it is in."""
    modules: dict[str, list[str]] = {}
    for path in sources("tests"):
        module = nodes(path)[0]
        assert isinstance(module, ast.Module)
        for node in module.body:
            if isinstance(node, ast.ClassDef):
                modules.setdefault(node.name, []).append(name(path))
    assert not {noun: paths for noun, paths in modules.items() if len(paths) > 1}


def test_the_core_does_not_speak_of_turns():
    """No identifier in agent_core contains the word that means both Run and Step elsewhere."""
    bad = [
        f"{name(path)}:{line} {identifier}"
        for path in sources("agent_core")
        for identifier, line in identifiers(path)
        if "turn" in words(re.sub("(?i)end_?turn", "", identifier))  # a stop reason of the contract
    ]
    assert not bad, f"say Run or Step: {bad}"


def test_the_core_names_no_vendor_of_a_channel():
    """The core knows channels by a port: Slack is named only in examples of addresses, in docstrings."""
    bad = []
    for path in sources("agent_core"):
        documented = set(docstring_lines(path))
        for number, line in enumerate(lines(path), 1):
            is_example = number in documented and "slack" not in re.sub("`slack[^`]*`", "", line).lower()
            is_listed = name(path) in NAMES_SLACK and line.startswith(NAMES_SLACK[name(path)])
            if "slack" in line.lower() and not is_example and not is_listed:
                bad.append(f"{name(path)}:{number}")
    assert not bad, f"put it into channels/slack: {bad}"


def test_channels_use_the_public_face_of_the_core():
    """Channels import names that agent_core exports, and agent_core.testing in testing folders only."""
    public = set(exported("agent_core"))
    bad = []
    for path in sources("channels"):
        for module, imported, line in imports(path):
            if module.split(".")[0] != "agent_core":
                continue
            if is_within(module, "agent_core.testing") and "testing" in path.parts:
                continue
            if module != "agent_core" or not imported or not set(imported) <= public:
                bad.append(f"{name(path)}:{line} {module}: {', '.join(imported) or 'the module'}")
    assert not bad, f"`from agent_core import X`, X in its `__all__`: {bad}"


def test_migrations_know_tables_only():
    """Of our packages migrations import nothing but tables modules."""
    bad = [
        f"{name(path)}:{line} {module}"
        for path in sources("migrations", generated=True)
        for module, imported, line in imports(path)
        if module.split(".")[0] in {"agent_core", "app", "channels"}
        and not module.endswith(".tables")
        and imported != ("tables",)
    ]
    assert not bad, f"import a `tables` module: {bad}"


def test_the_public_face_is_what_it_says():
    """`agent_core.__all__` is sorted and equals the public names of the module."""
    face = exported("agent_core")
    bound = {
        alias.asname or alias.name.split(".")[0]
        for node in of_type(ROOT / "agent_core/__init__.py", ast.Import, ast.ImportFrom)
        for alias in node.names
    }
    bound |= {node.id for node in of_type(ROOT / "agent_core/__init__.py", ast.Name) if isinstance(node.ctx, ast.Store)}
    assert set(face) == {word for word in bound if not word.startswith("_")}
    assert face == sorted(face, key=constants_then_classes)


def test_every_test_says_what_is_true():
    """Each test function opens with one sentence about the product."""
    bad = []
    for path in sources("tests"):
        for node in of_type(path, ast.FunctionDef, ast.AsyncFunctionDef):
            sentence = (ast.get_docstring(node) or "").split("\n\n", maxsplit=1)[0]
            if node.name.startswith("test_") and not re.fullmatch(r"(?s)\S.*[.!?]", sentence):
                bad.append(f"{name(path)}:{node.lineno} {node.name}")
    assert not bad, f"a docstring of one sentence with its full stop: {bad}"


def test_no_error_is_swallowed_in_silence():
    """No `except` has a body of `pass` alone; what may fail unseen is named with `suppress`."""
    bad = [
        f"{name(path)}:{node.lineno}"
        for path in sources()
        for node in of_type(path, ast.ExceptHandler)
        if all(is_nothing(statement) for statement in node.body)
    ]
    assert not bad, f"handle it, or say `contextlib.suppress(...)`: {bad}"


def test_production_imports_what_is_tested():
    """Product code has no import hook, replaces no module and no method of a library."""
    bad = [
        f"{name(path)}:{line} {text}"
        for path in sources(*PACKAGES)
        for line, text in patches(nodes(path))
        if text not in REGISTERS.get(name(path), ())
    ]
    assert not bad, f"import libraries plainly: {bad}"


@for_each(
    "code, found",
    [
        ("sys.meta_path.insert(0, finder)", 1),
        ("sys.path_hooks = []", 1),
        ("from sys import meta_path as hooks", 1),
        ("sys.modules[name] = None", 1),
        ("sys.modules[name]: object = None", 1),
        ("sys.modules |= {name: None}", 1),
        ("del sys.modules[name]", 1),
        ("sys.modules.setdefault(name, None)", 1),
        ("from sys import modules", 1),
        ("BaseModel.model_rebuild = later", 1),
        ("setattr(BaseModel, 'model_rebuild', later)", 1),
        ("found = name in sys.modules", 0),
        ("Model.model_rebuild()", 0),
    ],
)
def test_patches_are_found(code: str, found: int):
    """Each way to hook imports or to patch a library is found, reading is not."""
    assert len(list(patches(ast.walk(ast.parse(code))))) == found


def test_tests_do_not_sleep():
    """Tests wait for events and turn clocks; only what measures, kills or polls paces itself in real time."""
    bad = [
        f"{name(path)}:{node.lineno}"
        for path in sources("tests")
        if not name(path).startswith(("tests/bench/", "tests/chaos/", "tests/load/", "tests/polling.py"))
        for node in of_type(path, ast.Call)
        if is_sleep(node)
    ]
    assert not bad, f"wait for the thing itself: {bad}"


def test_nothing_names_where_it_was_made():
    """No text file holds a package registry's host or an absolute path of a developer's machine."""
    forbidden = re.compile(
        "|".join((
            re.escape("pypi" + ".org"),
            re.escape("python" + "hosted.org"),
            re.escape("registry." + "npmjs"),
            re.escape("registry." + "yarnpkg"),
            r"/opt/py" + "pi",
            r"/wo" + r"rk/(main|shared|\.)",
            r"/ro" + r"ot/[\w.]",
            r"/Us" + r"ers/\w",
            r"/ho" + r"me/\w+/",
        ))
    )  # fmt: skip
    bad = []
    for path in texts():
        for number, line in enumerate(path.read_text("utf-8", errors="ignore").splitlines(), 1):
            if found := forbidden.search(line):
                bad.append(f"{name(path)}:{number} {found.group()}")
    assert not bad, f"take these out: {bad}"


def test_the_readme_lists_every_setting():
    """Each setting of app/settings.py, and each line of .env.example, has a row in the README's table."""
    rows = "\n".join(line for line in lines(ROOT / "README.md") if line.startswith("|"))
    wanted = set(settings())
    wanted |= set(re.findall(r"(?m)^#?([A-Z_]+)=", (ROOT / ".env.example").read_text("utf-8")))
    missing = sorted(setting for setting in wanted if f"`{setting}`" not in rows)
    assert not missing, f"document these: {missing}"


def test_the_package_and_its_lock_agree():
    """Every dependency of pyproject.toml is pinned, with a hash, in requirements-dev.lock."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = project["dependencies"] + project["optional-dependencies"]["dev"]
    lock = (ROOT / "requirements-dev.lock").read_text("utf-8")
    pinned = set(re.findall(r"(?m)^([a-z0-9-]+)==\S+(?: ;.*?)? \\\n +--hash=", lock))
    missing = {re.split(r"[\[<>=]", each)[0] for each in wanted} - pinned
    assert not missing, f"run `make lock`: {missing}"


def settings() -> Iterator[str]:
    """Give the environment name of each setting."""
    module = importlib.import_module("app.settings")
    for found in vars(module).values():
        if not (isinstance(found, type) and found.__module__ == module.__name__):
            continue
        for field, info in getattr(found, "model_fields", {}).items():
            prefix = found.model_config.get("env_prefix", "")
            alias = info.validation_alias
            if isinstance(alias, AliasChoices):
                alias = alias.choices[0]
            yield str(alias or f"{prefix}{field}").upper()


def texts() -> list[Path]:
    """List the text files of the repository, ignoring what .gitignore keeps out."""
    return [
        path for path in walk(ROOT) if path.name not in {".env", ".coverage"} and b"\0" not in path.read_bytes()[:8192]
    ]


def docstring_lines(path: Path) -> Iterator[int]:
    """Give the numbers of the lines that docstrings take."""
    for node in of_type(path, ast.Expr):
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def imports(path: Path) -> Iterator[tuple[str, tuple[str, ...], int]]:
    """Give module, imported names and line of each import; relative ones as absolute."""
    package = module_of(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    for node in of_type(path, ast.Import, ast.ImportFrom):
        if isinstance(node, ast.Import):
            yield from ((alias.name, (), node.lineno) for alias in node.names)
        else:
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *filter(None, [node.module])])
            yield module, tuple(alias.name for alias in node.names), node.lineno


def exported(package: str) -> list[str]:
    """Read the `__all__` of a package without importing it."""
    for node in of_type(ROOT / package / "__init__.py", ast.Assign, ast.AnnAssign):
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if isinstance(target, ast.Name) and target.id == "__all__":
            return ast.literal_eval(node.value)
    return []


def constants_then_classes(word: str) -> tuple[int, str]:
    """Order as the linter does: constants, then classes, then functions."""
    return (0 if word.isupper() else 1 if word[0].isupper() else 2, word)


def identifiers(path: Path) -> Iterator[tuple[str, int]]:
    """Give each name that a module defines or uses, with its line."""
    for node in nodes(path):
        for field in ("id", "attr", "arg", "name", "asname"):
            if isinstance(found := getattr(node, field, None), str):
                yield found, getattr(node, "lineno", 0)


def words(identifier: str) -> set[str]:
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", identifier)
    return {part.lower().removesuffix("s") for part in parts}


def is_nothing(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return statement.value.value is ...
    return isinstance(statement, ast.Pass)


def patches(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Give line and text of each import hook, each change of `sys.modules` and each assigned `model_rebuild`."""
    for node in nodes:
        match node:
            case ast.Attribute(value=ast.Name(id="sys"), attr="meta_path" | "path_hooks"):
                yield node.lineno, ast.unparse(node)
            case ast.ImportFrom(module="sys", names=imported) if HOOKS & {each.name for each in imported}:
                yield node.lineno, ast.unparse(node)
            case ast.Assign(targets=targets) | ast.Delete(targets=targets) if any(map(is_patched, targets)):
                yield node.lineno, ast.unparse(node)
            case ast.AnnAssign(target=target) | ast.AugAssign(target=target) if is_patched(target):
                yield node.lineno, ast.unparse(node)
            case ast.Call(func=ast.Attribute(value=value, attr=method)) if method in CHANGES and is_patched(value):
                yield node.lineno, ast.unparse(node)
            case ast.Call(func=ast.Name(id="setattr"), args=[_, ast.Constant(value="model_rebuild"), *_]):
                yield node.lineno, ast.unparse(node)
            case _:
                continue


def is_patched(target: ast.expr) -> bool:
    """Return whether *target* is `sys.modules`, an entry of it, or the attribute `model_rebuild` of something."""
    if isinstance(target, ast.Subscript):
        target = target.value
    if isinstance(target, ast.Attribute) and target.attr == "model_rebuild":
        return True
    return ast.unparse(target) == "sys.modules"


def is_sleep(call: ast.Call) -> bool:
    called = ast.unparse(call.func)
    if called not in {"time.sleep", "asyncio.sleep", "anyio.sleep", "sleep"}:
        return False
    shortest = call.args[0] if call.args else None
    return called == "time.sleep" or not (isinstance(shortest, ast.Constant) and shortest.value == 0)
