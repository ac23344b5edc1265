"""A kind of tools in one file: each JSON file of a folder is a tool that gives a fixed answer."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_core.agents import ToolSpec
from agent_core.messages import Text
from agent_core.tools.base import CallContext, Done, Outcome, Tool
from agent_core.tools.toolset import Scope


@dataclass(frozen=True)
class FiledTool:
    """A tool that says what its file says."""

    spec: ToolSpec
    answer: str

    async def call(self, arguments: dict[str, Any], context: CallContext) -> Outcome:
        return Done((Text(self.answer.format(**arguments)),))


@dataclass(frozen=True)
class Filed:
    """The tools of *folder*, read whenever they are asked for; *asked* are the scopes that it was asked for."""

    folder: Path
    asked: list[Scope]

    async def tools(self, scope: Scope, /) -> Mapping[str, Tool]:
        self.asked.append(scope)
        return await asyncio.to_thread(self._read)

    def _read(self) -> Mapping[str, Tool]:
        found = [json.loads(path.read_text("utf-8")) for path in sorted(self.folder.glob("*.json"))]
        return {
            each["name"]: FiledTool(
                ToolSpec(
                    name=each["name"],
                    description=each["description"],
                    parameters={"type": "object", "properties": {name: {"type": "string"} for name in each["takes"]}},
                ),
                each["answer"],
            )
            for each in found
        }
