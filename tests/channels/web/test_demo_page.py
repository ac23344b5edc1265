"""What pages show of an agent: what the demo page leaves to it, and what the manual writes of its start screen."""

import re
from pathlib import Path

import yaml

from agent_core.agents import Definition
from agent_core.objects import AgentObject
from channels.web.demo import DemoPage, Door
from channels.web.routes import Demo
from channels.web.settings import check, settings_of


def shown(web: dict[str, object]) -> str:
    """Return the element that the page shows for an agent with the settings *web*."""
    made = Definition(name="orders", instructions="You help.", channels={"web": web})
    agent = AgentObject(id="agt_1", definition=made, version=1, source="file")
    offered = Demo(notice=lambda _: "", door=Door()).offered(agent)
    return DemoPage([offered], None, [], watched=False).document("{{main}}")


def test_words_of_the_agent_are_left_to_it():
    """An attribute would hide the agent's own title and greeting; its name stands above where it has no title."""
    own = '<parley-chat agent="orders" token-url="/widget-demo/token?agent=orders"'
    assert shown({"title": "Our orders", "greeting": "Which order?"}) == f"{own}></parley-chat>"
    assert shown({}) == f'{own} heading="Orders"></parley-chat>'


def test_the_start_screen_of_the_manual_is_one():
    """The YAML of docs/widget.md is taken as it is printed, each field of it."""
    manual = (Path(__file__).parents[3] / "docs/widget.md").read_text("utf-8")
    found = re.search(r"## Start screen\n.*?```yaml\n(.*?)```", manual, re.DOTALL)
    assert found
    web = settings_of(Definition(name="orders", instructions="You help.", channels=yaml.safe_load(found[1])))
    check(web)
    assert (web.title, web.greeting, web.avatar) == ("Shop help", "Hello! How can we help?", "🛟")
    assert [each.label for each in web.prompts] == ["Where is my order?", "Opening hours"]
