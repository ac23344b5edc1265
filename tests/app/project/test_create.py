"""`parley init` makes a project that is whole, or nothing."""

import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from dotenv import dotenv_values

from agent_core.errors import ConfigError
from app.files import read_agent
from app.project.create import create
from app.settings import load_settings
from channels.slack.settings import route
from tests.app.processes import Shell

VERSION = "1.2.3"


def make(name: str, parent: Path, *, sample: bool = False) -> Path:
    create(name, sample=sample, parent=parent, version=VERSION)
    return parent / name


def listed(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.processes
async def test_the_command_makes_a_project_and_says_how_to_go_on(shell: Shell):
    """`parley init NAME` prints the next three commands, and a second one of that name makes nothing."""
    said = await shell.said("init", "shop")
    second = "python web/server.py    # in a second terminal"
    assert [line.strip() for line in said.splitlines()[-3:]] == ["cd shop", "parley dev", second]
    before = listed(shell.folder / "shop")
    assert {"agents/assistant.yaml", "tools/orders.py", "web/server.py", ".env", "compose.yaml"} <= before
    assert "`shop` already has `.dockerignore`, `.env`, " in await shell.refused("init", "shop")
    assert listed(shell.folder / "shop") == before


async def test_the_version_is_printed(shell: Shell):
    """`parley --version` prints one line."""
    assert (await shell.said("--version")).startswith("parley 0.")


def test_the_secrets_are_new_and_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Each project has its own keys, in a file that only its owner reads and that git ignores."""
    first, second = (make(name, tmp_path) / ".env" for name in ("first", "second"))
    assert stat.S_IMODE(first.stat().st_mode) == 0o600
    assert first.read_text("utf-8") != second.read_text("utf-8")
    assert ".env" in (first.parent / ".gitignore").read_text("utf-8").splitlines()
    monkeypatch.chdir(first.parent)
    settings = load_settings()
    assert settings.api_key is not None
    assert settings.secret_key is not None
    assert "http://127.0.0.1:3000" in settings.origins


def test_no_place_of_a_template_is_left_open(tmp_path: Path):
    """No file of a project has a place that was not filled, and the image names the version that made it."""
    for sample in (False, True):
        folder = make(f"shop-{sample}", tmp_path, sample=sample)
        assert [path for path in folder.rglob("*") if path.is_file() and b"{{" in path.read_bytes()] == []
        assert f"parley-{VERSION}-py3" in (folder / "README.md").read_text("utf-8")
        assert not any(path.endswith(".tmpl") for path in listed(folder))


@pytest.mark.parametrize("name", ["", "..", "a/b", "-shop", ".shop", "my shop", "sh\u00f6p", "x" * 65, "a\n"])
def test_an_odd_name_is_refused(tmp_path: Path, name: str):
    """A name that is no plain folder's is refused with what is allowed, and nothing is made."""
    with pytest.raises(ConfigError, match="is no name for a project; use letters"):
        make(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_that_name_is_refused(tmp_path: Path):
    """A file in the place of the project stays as it is."""
    (tmp_path / "shop").write_text("mine", "utf-8")
    with pytest.raises(ConfigError, match="`shop` is a file"):
        make("shop", tmp_path)
    assert (tmp_path / "shop").read_text("utf-8") == "mine"


def test_the_current_folder_may_become_the_project(tmp_path: Path):
    """`parley init .` fills a repository that has been begun, and keeps what is there; git is to ignore more."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "tests").mkdir()
    mine = {"README.md": "# Mine\n", "LICENSE": "MIT\n", "tests/test_mine.py": "", ".gitignore": "*.log\n.env\n"}
    for path, text in mine.items():
        (tmp_path / path).write_text(text, "utf-8")
    made = create(".", sample=True, parent=tmp_path, version=VERSION)
    assert (made.is_here, made.readme) == (True, "PARLEY.md")
    assert {".git", ".env", "agents", "tools", "PARLEY.md"} <= {path.name for path in tmp_path.iterdir()}
    assert {"tests/test_mine.py", "tests/test_assistant.py", "sample/shop.sqlite"} <= listed(tmp_path)
    ignored = (tmp_path / ".gitignore").read_text("utf-8")
    assert ignored.startswith("*.log\n.env\n\n# Parley\n/data/\n")
    assert ignored.splitlines().count(".env") == 1
    assert [path for path, text in mine.items() if not (tmp_path / path).read_text("utf-8").startswith(text)] == []
    assert not any(path.name.startswith(".parley-init") for path in tmp_path.iterdir())


def test_what_would_be_overwritten_is_refused_by_name(tmp_path: Path):
    """A file of the same name, or one where a folder must be, is named, and nothing is made."""
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents/assistant.yaml").write_text("mine", "utf-8")
    (tmp_path / "web").write_text("mine", "utf-8")
    with pytest.raises(ConfigError, match=r"has `agents/assistant\.yaml`, `web/index\.html`, `web/server\.py`; move"):
        create(".", sample=False, parent=tmp_path, version=VERSION)
    assert listed(tmp_path) == {"agents/assistant.yaml", "web"}


def test_a_folder_is_as_it_was_when_its_project_cannot_be_moved_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An error after some files have come to their place takes them back, and the lines that git got."""
    (tmp_path / ".gitignore").write_text("*.log", "utf-8")
    rename = Path.rename

    def failing(path: Path, target: Path) -> Path:
        if path.name == "orders.py":
            raise OSError(28, "No space left on device")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(ConfigError, match="No space left on device"):
        create(".", sample=False, parent=tmp_path, version=VERSION)
    assert [path.name for path in tmp_path.iterdir()] == [".gitignore"]
    assert (tmp_path / ".gitignore").read_text("utf-8") == "*.log"


@pytest.mark.parametrize("name", ["shop", "."])
def test_nothing_is_left_of_a_project_that_could_not_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
):
    """An error in the middle leaves neither a folder nor a part of one."""

    def fail(*_args, **_more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("app.project.create.subprocess.run", fail)
    with pytest.raises(ConfigError, match="No space left on device"):
        create(name, sample=True, parent=tmp_path, version=VERSION)
    assert list(tmp_path.iterdir()) == []


def test_the_sample_is_the_same_each_time(tmp_path: Path):
    """`--sample` adds a shop whose orders add up, and the project's own code makes the same one again."""
    folder = make("shop", tmp_path, sample=True)
    first = rows(folder / "sample/shop.sqlite")
    subprocess.run([sys.executable, "sample/make.py"], cwd=folder, check=True, capture_output=True)
    assert rows(folder / "sample/shop.sqlite") == first
    assert first["orders"][0] == ("A-1001", "C-1", "2025-07-01", "delivered", 3900)
    sums = dict.fromkeys((row[0] for row in first["orders"]), 0)
    for order, _, quantity, cents in first["order_items"]:
        sums[order] += quantity * cents
    assert sums == {row[0]: row[4] for row in first["orders"]}
    assert {len(first[table]) for table in ("customers", "products", "orders")} == {8, 10, 120}
    documented = (folder / "sample/README.md").read_text("utf-8")
    assert [table for table in first if f"`{table}`" not in documented] == []


def rows(path: Path) -> dict[str, list[tuple]]:
    with closing(sqlite3.connect(path)) as shop:
        tables = [name for (name,) in shop.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {table: shop.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in tables}  # noqa: S608


def test_the_assistant_is_in_slack(tmp_path: Path):
    """The agent of a new project answers in every channel once there is a bot token: nothing else is to be written."""
    made = read_agent(make("shop", tmp_path) / "agents/assistant.yaml")
    assert route([made], "T0001", "CGENERAL") == "assistant"


def test_what_it_takes_to_deploy_fits_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The Dockerfile copies what is there, and compose migrates before it serves, on a database that is healthy."""
    folder = make("My.Shop", tmp_path)
    composed = yaml.safe_load((folder / "compose.yaml").read_text("utf-8"))
    assert composed["name"] == "my-shop"
    migrate, parley = composed["services"]["migrate"], composed["services"]["parley"]
    assert migrate["depends_on"] == {"db": {"condition": "service_healthy"}}
    assert parley["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}
    assert parley["environment"] == migrate["environment"]
    assert parley["environment"]["DATABASE_URL"].startswith("postgres://parley:${POSTGRES_PASSWORD}@db:")
    env = (folder / ".env").read_text("utf-8")
    assert [
        name for name in ("POSTGRES_PASSWORD", "PARLEY_SECRET_KEY", "PARLEY_API_KEY") if f"\n{name}=" not in env
    ] == []
    for name, value in parley["environment"].items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(folder)
    settings = load_settings()
    assert settings.postgres is not None
    assert not settings.demo
    for line in (folder / "Dockerfile").read_text("utf-8").splitlines():
        if line.startswith("COPY") and "wheels/*.whl" in line:
            assert (folder / line.split()[1]).exists()


def test_the_customer_of_the_workshop_is_not_deployed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Of the settings in .env compose passes on all but the customer that the page of `parley dev` asks as."""
    folder = make("shop", tmp_path)
    parley = yaml.safe_load((folder / "compose.yaml").read_text("utf-8"))["services"]["parley"]
    assert parley["env_file"] == ".env"
    for name, value in {**dotenv_values(folder / ".env"), **parley["environment"]}.items():
        monkeypatch.setenv(name, value or "")
    assert ".env" in (folder / ".dockerignore").read_text("utf-8").split()
    deployed = load_settings(None)
    assert deployed.api_key is not None
    assert deployed.demo_tool_context is None
    assert deployed.fetch_allow == ()


def test_the_code_of_a_project_is_clean(tmp_path: Path):
    """What is made passes ruff's checks as anyone has them, and its formatter."""
    for sample in (False, True):
        folder = make(f"shop-{sample}", tmp_path, sample=sample)
        ruff = [sys.executable, "-m", "ruff"]
        for words in (["check", "--isolated"], ["format", "--isolated", "--check", "--line-length", "120"]):
            done = subprocess.run([*ruff, *words, "."], cwd=folder, check=False, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
