"""What the doctor says of the hooks of a deployment's agents."""

from app.checks import Finding
from app.doctor import agents, agents_of
from app.own_tools import OwnTools
from app.settings import Settings


def of_hooks(settings: Settings) -> list[Finding]:
    found = agents_of(settings, OwnTools.of(settings), ())
    return [each for each in agents(settings, found) if each.about == "hooks"]
