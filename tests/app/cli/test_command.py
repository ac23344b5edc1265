"""The command `parley` before it does anything: what it starts, and how it ends when it cannot."""

import sys
from types import ModuleType
from typing import Any

import pytest

from agent_core.errors import ConfigError
from app import __main__ as command
from app import logs, main

PROCESSES = ("serve", "work", "listen")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """Record which processes were started, each with its options; none runs."""
    calls: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(logs, "configure", lambda *_, **__: None)
    for name in PROCESSES:
        monkeypatch.setattr(main, name, lambda _, name=name, **given: calls.append((name, given)))
    return calls


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> object:
    """Run the command; return its exit code."""
    monkeypatch.setattr(sys, "argv", ["parley", *words])
    with pytest.raises(SystemExit) as ended:
        command.main()
    return ended.value.code


@pytest.mark.parametrize(
    ("words", "process", "options"),
    [
        (("serve",), "serve", {"web_only": False}),
        (("serve", "--web-only"), "serve", {"web_only": True}),
        (("worker",), "work", {"health_port": None}),
        (("worker", "--health-port", "9000"), "work", {"health_port": 9000}),
        (("slack",), "listen", {"channel": "slack"}),
    ],
)
def test_a_command_starts_its_process(started, monkeypatch, words, process, options):
    """`serve`, `worker` and `slack` start one process each, with the options that were given."""
    assert run(monkeypatch, *words) == 0
    assert started == [(process, options)]


@pytest.mark.parametrize(
    "words",
    [("serve", "--help"), ("--help",), ("slack", "--help"), ("serve", "--no-such-option"), ("no-such-command",)],
)
def test_help_and_unknown_words_start_nothing(started, monkeypatch, capsys, words):
    """Help exits with 0, an unknown command or option with 2, and no process starts."""
    code = run(monkeypatch, *words)
    printed = capsys.readouterr()
    assert (started, code) == ([], 0 if "--help" in words else 2)
    assert ("Usage" in printed.out) if code == 0 else ("No such" in printed.err)


@pytest.mark.usefixtures("started")
def test_an_error_of_ours_is_one_line(monkeypatch, capsys):
    """A ParleyError is one line on standard error and the exit code 1."""

    def refuse(*_, **__):
        raise ConfigError("PORT: 7 is in use.")

    monkeypatch.setattr(main, "serve", refuse)
    assert run(monkeypatch, "serve") == 1
    assert capsys.readouterr() == ("", "parley: PORT: 7 is in use.\n")


@pytest.mark.usefixtures("started")
def test_a_bug_shows_its_trace(monkeypatch):
    """Any other error leaves the command as it is."""
    monkeypatch.setattr(main, "serve", lambda *_, **__: 1 // 0)
    monkeypatch.setattr(sys, "argv", ["parley", "serve"])
    with pytest.raises(ZeroDivisionError):
        command.main()


@pytest.mark.usefixtures("started")
def test_ctrl_c_in_a_command_exits_with_130(monkeypatch, capsys):
    """Ctrl-C before a process takes signals exits with 130 and prints no trace."""

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "serve", interrupt)
    assert run(monkeypatch, "serve") == 130
    assert "Traceback" not in capsys.readouterr().err


def test_ctrl_c_during_the_imports_exits_with_130(monkeypatch, capsys):
    """Ctrl-C while the command line is imported exits with 130 and prints nothing."""

    class Interrupted(ModuleType):
        def __getattr__(self, name):
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "app.cli.commands", Interrupted("app.cli.commands"))
    assert run(monkeypatch, "serve") == 130
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("options", [(), ("--approve", "--deny")], ids=["neither", "both"])
def test_a_decision_is_either_yes_or_no(monkeypatch, capsys, options):
    """`approvals decide` with both options, or with neither, is a usage error: no server is asked."""
    assert run(monkeypatch, "approvals", "decide", "apr_x", *options) == 2
    assert "either --approve or --deny" in capsys.readouterr().err
