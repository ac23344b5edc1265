"""The stand-in as a command of its own."""

import os
import signal
import urllib.request
from pathlib import Path

import pytest

from app.cli.commands import app
from tests.forked import Talking
from tests.polling import PATIENCE

pytestmark = pytest.mark.whole


def test_the_command_serves_until_it_is_terminated(tmp_path: Path):
    """It prints what an app needs to know, shows its page, and exits cleanly."""
    process = Talking("app", "slack", "simulate", "--port", "0", "--socket-mode", cwd=tmp_path, env=os.environ)
    try:
        said = []
        for line in process.stdout:
            said.append(line.strip())
            if line.startswith("Events go"):
                break
        settings = dict(line.split("=", 1) for line in said if "=" in line)
        assert settings["SLACK_APP_TOKEN"].startswith("xapp-")
        assert settings["SLACK_BOT_TOKEN"].startswith("xoxb-")
        page = settings["SLACK_API_URL"].removesuffix("api/")
        with urllib.request.urlopen(page, timeout=PATIENCE) as response:  # noqa: S310
            assert b"<title>Slack stand-in</title>" in response.read()
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
        process.stdout.close()


def test_a_port_that_cannot_be_is_refused(capsys: pytest.CaptureFixture[str]):
    """The command says what is wrong with its arguments."""
    with pytest.raises(SystemExit):
        app(["slack", "simulate", "--port", "70000"])
    refusal = capsys.readouterr().err
    assert "Invalid value for '--port'" in refusal
    assert "65535" in refusal
