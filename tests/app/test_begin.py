"""The command `parley` before it does anything: what begins at once, and how it ends when it cannot."""

import sys

import pytest

from agent_core import ConfigError
from app import __main__ as command
from app import begin, lean


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which processes were begun; none is."""
    names: list[str] = []
    for name in command.LASTING:
        monkeypatch.setattr(begin, name, lambda name=name, **given: names.append(f"{name} {given}".removesuffix(" {}")))
    return names


def ask(monkeypatch: pytest.MonkeyPatch, *words: str) -> object:
    """Run the command; return its exit code, None without one."""
    monkeypatch.setattr(sys, "argv", ["parley", *words])
    try:
        command.main()
    except SystemExit as end:
        return end.code
    return None


@pytest.mark.parametrize("word", command.LASTING)
def test_at_once(begun, monkeypatch, word):
    """A process that lasts is begun without the command line when there is nothing to parse."""
    monkeypatch.delitem(sys.modules, "app.cli", raising=False)
    assert ask(monkeypatch, word) is None
    assert (begun, "app.cli" in sys.modules) == ([word], False)


@pytest.mark.parametrize(
    ("words", "begins"),
    [
        (("serve", "--web-only"), "serve {'web_only': True}"),
        (("worker", "--health-port", "9000"), "worker {'health_port': 9000}"),
    ],
)
def test_with_options(begun, monkeypatch, words, begins):
    """With options it is the command line that begins the same."""
    assert ask(monkeypatch, *words) in (0, None)
    assert begun == [begins]


@pytest.mark.parametrize(
    "words", [("serve", "--help"), ("--help",), ("serve", "--no-such-option"), ("no-such-command",)]
)
def test_nothing_begins(begun, monkeypatch, capsys, words):
    """Help, and what is no command, begin nothing."""
    code = ask(monkeypatch, *words)
    told = capsys.readouterr()
    assert (begun, code) == ([], 0 if "--help" in words else 2)
    assert ("Usage" in told.out) if code == 0 else ("No such" in told.err)


def test_an_error_of_ours(monkeypatch, capsys):
    """An error of ours is one line and the exit code 1."""

    def refuse():
        raise ConfigError("PORT: 7 is in use.")

    monkeypatch.setattr(begin, "serve", refuse)
    assert ask(monkeypatch, "serve") == 1
    assert capsys.readouterr() == ("", "parley: PORT: 7 is in use.\n")


def test_any_other_error(monkeypatch):
    """A bug shows its trace."""
    monkeypatch.setattr(begin, "serve", lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        ask(monkeypatch, "serve")


@pytest.mark.parametrize("words", [("serve",), ("serve", "--web-only")])
def test_interrupted_early(monkeypatch, capsys, words):
    """Ctrl-C while nothing runs yet ends the command as a shell expects it, and without a trace."""

    def interrupt(**_):
        raise KeyboardInterrupt

    monkeypatch.setattr(begin, "serve", interrupt)
    assert ask(monkeypatch, *words) == 130
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(("given", "asked"), [({}, [(-8, 1)]), ({"MALLOC_ARENA_MAX": "2"}, [])])
def test_one_arena(monkeypatch, given, asked):
    """One arena is what glibc is asked for, unless the operator has asked for others."""
    calls: list[tuple[int, int]] = []

    class Library:
        def mallopt(self, name, value):
            calls.append((name, value))

    monkeypatch.setattr(lean.ctypes, "CDLL", lambda _: Library())
    monkeypatch.delenv("MALLOC_ARENA_MAX", raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    lean.arena()
    assert calls == asked


def test_another_malloc(monkeypatch):
    """A C library that has no such setting is left alone."""
    monkeypatch.delenv("MALLOC_ARENA_MAX", raising=False)
    monkeypatch.setattr(lean.ctypes, "CDLL", lambda _: object())
    lean.arena()
