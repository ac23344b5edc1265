"""The demo page as a document: what it leaves to the agent that it shows."""

from agent_core import AgentObject, Definition
from channels.web.demo import Door
from channels.web.demo_page import DemoPage
from channels.web.routes import Demo


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
