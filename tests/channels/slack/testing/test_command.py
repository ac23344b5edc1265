"""The stand-in as a command of its own."""

import signal
import subprocess
import sys
import urllib.request

import pytest

from app.cli.commands import app

START = "from app.cli.commands import app; app(['slack', 'simulate', '--port', '0', '--socket-mode'])"


def test_the_command_serves_until_it_is_terminated():
    """It prints what an app needs to know, shows its page, and exits cleanly."""
    with subprocess.Popen([sys.executable, "-c", START], stdout=subprocess.PIPE, text=True) as process:
        try:
            said = []
            for line in process.stdout or ():
                said.append(line.strip())
                if line.startswith("Events go"):
                    break
            settings = dict(line.split("=", 1) for line in said if "=" in line)
            assert settings["SLACK_APP_TOKEN"].startswith("xapp-")
            assert settings["SLACK_BOT_TOKEN"].startswith("xoxb-")
            page = settings["SLACK_API_URL"].removesuffix("api/")
            with urllib.request.urlopen(page, timeout=60) as response:  # noqa: S310
                assert b"<title>Slack stand-in</title>" in response.read()
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_a_port_that_cannot_be_is_refused(capsys: pytest.CaptureFixture[str]):
    """The command says what is wrong with its arguments."""
    with pytest.raises(SystemExit):
        app(["slack", "simulate", "--port", "70000"])
    refusal = capsys.readouterr().err
    assert "Invalid value for '--port'" in refusal
    assert "65535" in refusal
