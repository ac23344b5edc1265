"""The model server of the talks: the fake models that users test with, answering as the question says."""

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

from agent_core.testing import Answer, call, fail, say
from agent_core.testing.models import FakeModels, ModelCall
from tests.bench.serving import Orders, serve
from tests.chaos.plan import Question


class Script:
    """Answers each request; what tripped once is remembered."""

    def __init__(self) -> None:
        self._tripped: set[str] = set()

    def __call__(self, asked: ModelCall) -> Answer:
        question = Question.read(asked.text)
        if asked.step < len(question.steps):
            return self._step(question, asked.step)
        words = [f"w{n} " for n in range(question.words)]
        if question.trips and asked.text not in self._tripped:
            self._tripped.add(asked.text)
            return (say(*_head(question), *words[: question.words // 2]), fail("error"))
        return (say(*_head(question), *(f"[{result}] " for result in results(asked.body)), *words),)

    def _step(self, question: Question, step: int) -> Answer:
        """Call the tools of *step*; no two calls are the same, and each takes its time."""
        names = question.steps[step].split("+")
        calls = [
            call(name, key=f"{question.talk}.{question.n}.{step}.{n}", seconds=(7 * question.n + step + n) % 5 / 10)
            for n, name in enumerate(names)
        ]
        return (say(*_head(question), f"step {step} "), *calls)


def results(body: dict[str, Any]) -> Iterator[str]:
    """Yield the results of the calls since the newest question in a request to Messages."""
    messages = body["messages"]
    asked = max(n for n, each in enumerate(messages) if each["role"] == "user" and not list(_results_of(each)))
    for message in messages[asked:]:
        yield from _results_of(message)


def _results_of(message: dict[str, Any]) -> Iterator[str]:
    for block in message["content"] if isinstance(message["content"], list) else ():
        if block["type"] == "tool_result":
            yield " ".join(part["text"] for part in block.get("content", ()))


def _head(question: Question) -> tuple[str, str]:
    talk, n = question.name
    return f"{talk} ", f"{n} "


@asynccontextmanager
async def running(rate: float) -> AsyncIterator[tuple[int, Orders]]:
    """Serve the models at *rate* words a second, checking each request as the vendor does."""
    async with FakeModels(Script(), rate=rate, record=False, cache=False) as models:
        yield int(models.url.rpartition(":")[2]), {}


if __name__ == "__main__":
    serve(running(float(sys.argv[1])))
