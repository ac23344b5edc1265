"""The lines that a site embeds: what they name, what they pin, and that nothing in them is markup of its own."""

import base64
import hashlib
import re

from typer.testing import CliRunner

from app.cli.commands import app
from channels.web import frame_page
from channels.web.frame_page import Snippet
from channels.web.routes import STATIC, Widget, widget

SERVER = "https://parley.example"


def test_the_two_lines():
    """An element and its script, with the site's own token route."""
    made = Snippet(server=SERVER, agent="assistant", token_url="/t").text()
    assert made == (
        '<script type="module" src="https://parley.example/widget/parley-chat.js"></script>\n'
        '<parley-chat server="https://parley.example" agent="assistant" token-url="/t"></parley-chat>'
    )


def test_the_lines_of_an_iframe():
    """An iframe with what it may do, and the site's own script; visitors without a name need none."""
    sandbox = "allow-scripts allow-same-origin allow-forms allow-popups allow-popups-to-escape-sandbox allow-downloads"
    made = Snippet(server=SERVER, agent="a & b", token_url="/t", frame=True).text()
    assert made == (
        '<iframe id="parley" src="https://parley.example/widget/frame?agent=a+%26+b" title="Chat" width="100%" '
        f'height="640" sandbox="{sandbox}" allow="clipboard-write"></iframe>\n'
        '<script src="/parley-frame.js" data-token-url="/t" defer></script>'
    )
    alone = Snippet(server=SERVER, agent="a", token_url=None, frame=True).text()
    assert "?agent=a&amp;anonymous=" in alone
    assert "<script" not in alone


def test_what_is_pinned_is_what_the_server_gives_out():
    """The address has the version of the build, and the integrity is that of the file."""
    for launcher, name in ((False, "parley-chat.js"), (True, "parley-loader.js")):
        made = Snippet(server=SERVER, agent="a", token_url=None, launcher=launcher, pinned=True).text()
        digest = base64.b64encode(hashlib.sha384((STATIC / name).read_bytes()).digest()).decode()
        assert (
            f'src="{SERVER}/widget/{widget().build}/{name}" integrity="sha384-{digest}" crossorigin="anonymous"' in made
        )


def test_names_stay_inside_their_attributes():
    """An agent's name with quotes and brackets begins no tag."""
    made = Snippet(server=SERVER, agent='"><script>alert(1)</script>', token_url=None).text()
    assert 'agent="&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;" anonymous>' in made


def test_a_script_that_the_build_lacks_is_a_sentence(monkeypatch, tmp_path):
    """A manifest without a script can pin nothing: the command says which one is missing, without a trace."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(frame_page, "widget", lambda: Widget("0" * 12, {}))
    made = CliRunner().invoke(app, ["widget", "snippet", "--pinned", "--launcher"])
    assert made.exit_code == 2
    assert "`parley-loader.js` is not among" in made.output
    assert isinstance(made.exception, SystemExit)


def test_the_command_prints_them(monkeypatch, tmp_path):
    """`parley widget snippet` takes the address from the settings, and refuses one that is none."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PARLEY_PUBLIC_URL", "https://chat.shop.example/")
    found = CliRunner().invoke(app, ["widget", "snippet", "--launcher", "--agent", "sales", "--anonymous"])
    assert found.exit_code == 0
    src = 'src="https://chat.shop.example/widget/parley-loader.js"'
    assert found.stdout.strip() == f'<script {src} data-agent="sales" data-anonymous defer></script>'
    framed = CliRunner().invoke(app, ["widget", "snippet", "--frame"])
    assert 'src="https://chat.shop.example/widget/frame?agent=assistant"' in framed.stdout
    assert CliRunner().invoke(app, ["widget", "snippet", "--frame", "--pinned"]).exit_code == 2
    refused = CliRunner().invoke(app, ["widget", "snippet", "--server", "ftp://x"])
    assert refused.exit_code != 0
    assert re.search("not an http address", refused.output)
