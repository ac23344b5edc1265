"""The page that sites embed as an iframe: for those that are listed, with one policy that no query widens."""

import re

import httpx
import pytest

from agent_core.core import Core
from agent_core.errors import ConfigError
from app.compose import create_app
from app.settings import Settings, load_settings
from app.storage import ApiKey
from channels.web.identity import TokenSigner
from channels.web.routes import widget

SITES = ("https://shop.example", "http://localhost:3000")


@pytest.fixture
async def page(core: Core, settings: Settings, tokens: TokenSigner):
    """A caller of an application whose chat may be embedded by two sites."""
    named = settings.model_copy(update={"frame_ancestors": SITES})
    app = create_app(core, named, tokens=tokens, api_key=ApiKey(bytes(32)))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8000") as client:
        yield client


async def test_without_a_list_there_is_no_page(anyone: httpx.AsyncClient):
    """No site is listed unless the operator lists one."""
    assert (await anyone.get("/widget/frame?agent=assistant")).status_code == 404


async def test_the_page_has_a_strict_policy(page: httpx.AsyncClient):
    """The listed sites may embed it, and nothing else is looser than on the demo page; its scripts are pinned."""
    answer = await page.get("/widget/frame", params={"agent": "assistant"})
    policy = answer.headers["Content-Security-Policy"].split("; ")
    demo = (await page.get("/widget-demo")).headers["Content-Security-Policy"].split("; ")
    assert f"frame-ancestors {' '.join(SITES)}" in policy
    assert {each for each in policy if not each.startswith("frame-ancestors")} < set(demo)
    assert "require-trusted-types-for 'script'" in policy
    assert "X-Frame-Options" not in answer.headers
    assert (answer.headers["Cache-Control"], answer.headers["Referrer-Policy"]) == ("no-store", "no-referrer")
    found = dict(re.findall(r'src="(.*?)" integrity="(.*?)"', answer.text))
    for name in ("parley-chat.js", "parley-frame.js"):
        address = f"/widget/{widget().build}/{name}"
        assert found.pop(address) == widget().files[name].integrity
        assert (await page.get(address)).status_code == 200
    assert found == {}
    assert re.search(r"<script(?! type=\"module\" src=)|style=|<style| on\w+=", answer.text) is None


async def test_a_query_says_attributes_and_no_more(page: httpx.AsyncClient):
    """What it may say is data of the body, as text; servers, tokens and the list of sites are not among it."""
    asked = {
        "agent": 'a"><script>x</script>',
        "heading": "Help & more",
        "theme": "dark",
        "locale": "de",
        "anonymous": "",
    }
    text = (await page.get("/widget/frame", params=asked)).text
    assert '<html lang="de">' in text
    assert "<title>Help &amp; more</title>" in text
    assert (
        '<body data-agent="a&quot;&gt;&lt;script&gt;x&lt;/script&gt;" data-heading="Help &amp; more" data-theme="dark" '
        'data-locale="de" data-anonymous="">' in text
    )
    for name in ("server", "token", "token-url", "launcher", "debug", "storage-key", "ancestors", "frame-ancestors"):
        refused = await page.get("/widget/frame", params={"agent": "assistant", name: "https://evil.example"})
        assert (refused.status_code, "evil" in refused.text) == (422, False), name
    for name, value in (("theme", "x"), ("locale", 'de" x="'), ("heading", "x" * 201)):
        assert (await page.get("/widget/frame", params={name: value})).status_code == 422


def test_the_list_is_read_as_other_origins_are(monkeypatch: pytest.MonkeyPatch, tmp_path):
    """Spaces, slashes and capitals do not matter; each site is named, so that `*` is refused."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agents").mkdir()
    monkeypatch.setenv("PARLEY_FRAME_ANCESTORS", "HTTPS://Shop.example/, http://localhost:3000")
    assert load_settings().frame_ancestors == ("https://shop.example", "http://localhost:3000")
    for given in ("*", "https://shop.example, *", "https://*.example", "https://shop.example/page", "'self'"):
        monkeypatch.setenv("PARLEY_FRAME_ANCESTORS", given)
        with pytest.raises(ConfigError, match=r"PARLEY_FRAME_ANCESTORS .*whole origins .*without a path"):
            load_settings()
