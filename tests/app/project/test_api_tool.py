"""The API of a new project as a tool, as its README says."""

import re
import runpy
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path

import msgspec
import yaml

from agent_core.agents import ToolDefinition
from agent_core.tools.base import Done
from app.project.create import create
from app.settings import load_settings
from tests.agent_core.tools.http.calling import calling

HOST = "127.0.0.1:3000"


async def test_the_tool_of_the_readme_asks_the_projects_own_site(tmp_path: Path) -> None:
    """What it says can be saved, its address is allowed, and its example call ends as it says."""
    create("shop", sample=False, parent=tmp_path, version="1.2.3")
    written = re.search(r"```yaml\n(.*?)```", (tmp_path / "shop/README.md").read_text("utf-8"), re.DOTALL)
    assert written
    assert load_settings(tmp_path / "shop/.env").fetch_allow == (HOST,)
    assert HOST in written[1]
    site = ThreadingHTTPServer(("127.0.0.1", 0), runpy.run_path(str(tmp_path / "shop/web/server.py"))["Site"])
    thread = threading.Thread(target=site.serve_forever)
    thread.start()
    try:
        own = f"127.0.0.1:{site.server_port}"
        definition = msgspec.convert(yaml.safe_load(written[1].replace(HOST, own)), ToolDefinition)
        async with calling(own) as api:
            api.kind.check(definition)
            tool = api.kind.tool(definition, {})
            for example in definition.tests:
                outcome = await tool.call(example.arguments, api.call_context())
                assert isinstance(outcome, Done)
                assert [text for text in example.contains if text not in str(outcome.parts)] == []
    finally:
        site.shutdown()
        thread.join()
        site.server_close()
    assert definition.tests
