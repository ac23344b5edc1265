"""A talk: one session, a client that writes to it, and one that reads it, at any of the servers."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from tests.chaos.goals import Stop
from tests.chaos.plan import Question
from tests.chaos.records import ENDS
from tests.e2e.frames import ClientMessage, Frames, StreamedEvent
from tests.e2e.server import KEY

HEADERS = {"Authorization": f"Bearer {KEY}"}
# A request that is not answered after so long hangs: that is a fault, whatever happens around it. The machine may be
# busy with more than this.
ANSWERED = 45.0
# A stream says something at least every 15 s.
SILENT = 40.0
# How often a message joins the run that is open, and how often a run is stopped after some messages.
STEERS, STOPS = 0.2, 0.15
# How long a reader stays with a server on average, in seconds.
STAYS = 8.0
LOST = (aiohttp.ClientError, ConnectionError, OSError)


@dataclass(slots=True)
class Net:
    """The servers, and how they answered: *refused* counts by kind, *faults* are answers that must not occur.

    *trap* is called once, when a message is on its way to the server it names. *took* has the seconds of each answer.
    """

    http: aiohttp.ClientSession
    urls: list[str]
    chance: random.Random
    refused: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    trap: tuple[str, Callable[[], None]] | None = None
    took: list[float] = field(default_factory=list)

    async def ask(self, method: str, path: str, body: object = None, *, patience: float = 150) -> Any:
        """Return the JSON of the answer, asking one server after the other until one gives it."""
        until = time.monotonic() + patience
        while time.monotonic() < until:
            url = self.chance.choice(self.urls)
            if method == "POST" and self.trap is not None and self.trap[0] == url:
                asyncio.get_running_loop().call_later(self.chance.uniform(0, 0.02), self.trap[1])
                self.trap = None
            begin = time.monotonic()
            try:
                async with self.http.request(method, url + path, json=body, headers=HEADERS) as response:
                    found = await response.json(content_type=None)
                if response.ok:
                    self.took.append(time.monotonic() - begin)
                    return found
                self._refuse(response, found, f"{method} {path}")
                pause = float(response.headers.get("Retry-After", 0.3))
            except TimeoutError:
                self.faults.append(f"{time.time():.3f} {method} {url}{path}: not answered within {ANSWERED:g} s")
                pause = 0.3
            except LOST as error:
                self.refused[type(error).__name__] += 1
                pause = 0.2
            await asyncio.sleep(pause * self.chance.uniform(0.5, 1.5))
        raise AssertionError(f"{method} {path}: no answer for {patience:g} s; {self.refused}")

    def _refuse(self, response: aiohttp.ClientResponse, found: Any, what: str) -> None:
        """Count a refusal that may be; remember one that may not."""
        self.refused[f"{response.status} {found.get('code')}"] += 1
        clear = response.content_type == "application/problem+json" and (response.status, found["code"]) in {
            (503, "unavailable"),
            (429, "rate_limited"),
        }
        if not clear:
            self.faults.append(f"{time.time():.3f} {what}: {response.status} {found}")


@dataclass(frozen=True, slots=True)
class Receipt:
    """A message that was taken in; one that was *steered* joined a run that was open already."""

    question: Question
    run: str
    message: str
    seq: int
    steered: bool = False


class Seen(Frames):
    """What the reader of a talk saw, over all its connections; live frames are folded and forgotten.

    *taken* has the run that took each message, by seq.
    """

    def __init__(self) -> None:
        super().__init__()
        self.taken: dict[int, str] = {}
        self._epochs: dict[str, int] = {}
        self._tries: dict[str, tuple[int, int]] = {}
        self._void: set[str] = set()

    def add(self, block: str) -> StreamedEvent:
        frame = super().add(block)
        if frame.seq is None:
            self.all.pop()
        return frame

    def _fold(self, frame: StreamedEvent) -> None:
        data = frame.data
        match frame.event:
            case "run.started" | "run.resumed":
                self._epochs[data["run"]] = data["epoch"]
                self._void.add(data["run"])
            case "step.failed":
                self._void.add(data["run"])
            case "step.started":
                self._void.discard(data["run"])
                self._tries[data["message"]] = (self._epochs[data["run"]], data["attempt"])
                self.taken |= dict.fromkeys(data["takes"], data["run"])
            case "message.completed" if data["role"] == "assistant":
                self._grew_into(data)
        super()._fold(frame)

    def _grew_into(self, whole: dict[str, Any]) -> None:
        """Hold that what was shown of the try that came to its end is a beginning of what is kept.

        Of a try that failed, or went with its process, nothing is kept when a Stop comes before the next one.
        """
        if whole["run"] in self._void:
            assert whole["parts"] == [], f"of a try that was void is kept: {whole}"
            return
        shown = self.messages.get(whole["message"], ClientMessage())
        if shown.tried == self._tries[whole["message"]]:
            kept = {n: part["text"] for n, part in enumerate(whole["parts"]) if part["type"] == "text"}
            for n, text in shown.parts.items():
                assert kept.get(n, "").startswith(text), f"shown was {text!r} of what is {kept.get(n)!r}: {whole}"


class Talk:
    """One session: *receipts* are its messages that were taken in, *seen* what its reader saw.

    *stops* has the runs that were stopped.
    """

    def __init__(self, name: str, net: Net, chance: random.Random, over: asyncio.Event) -> None:
        self.name, self.session = name, ""
        self.receipts: list[Receipt] = []
        self.stops: dict[str, Stop] = {}
        self.seen = Seen()
        self.connections = 0
        self.fault: str | None = None
        self._net, self._chance, self._over = net, chance, over
        self._ended: set[str] = set()
        self._news = asyncio.Event()

    async def run(self) -> None:
        """Talk until it is *over* and the reader has seen every message answered."""
        self.session = (await self._net.ask("POST", "/v1/sessions", {"agent": "assistant"}))["id"]
        tasks = [asyncio.create_task(each) for each in (self._write(), self._read())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        except AssertionError as error:
            self.fault = str(error)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def open(self) -> list[str]:
        """The runs whose end the reader has not seen; a steered message is its taker's."""
        return [run for receipt in self.receipts if (run := self._taker(receipt)) not in self._ended]

    def _taker(self, receipt: Receipt) -> str:
        return self.seen.taken.get(receipt.seq, "none") if receipt.steered else receipt.run

    async def _write(self) -> None:
        """Write one to three messages at a time, stop a run now and then, and wait until all have ended."""
        while not (self._over.is_set() and self.receipts):
            for _ in range(self._chance.choice((1, 1, 2, 3))):
                await self._post(Question.draw(self.name, len(self.receipts), self._chance))
            if self._chance.random() < STOPS:
                await self._stop(self._chance.choice(self.receipts[-3:]).run)
            while self.open:
                self._news.clear()
                await self._news.wait()

    async def _post(self, question: Question) -> None:
        """Write until it is taken in; sometimes write the same again, as clients do that got no answer."""
        path, key = f"/v1/sessions/{self.session}/messages", f"{question.talk}-{question.n}"
        overlap = "steer" if self._chance.random() < STEERS else "queue"
        body = {"text": question.text, "idempotency_key": key, "overlap": overlap}
        found = await self._net.ask("POST", path, body)
        if self._chance.random() < 0.1:
            again = await self._net.ask("POST", path, body)
            assert again == found, f"the same key gave {found} and then {again}"
        joined = found["run_id"] in {receipt.run for receipt in self.receipts}
        self.receipts.append(Receipt(question, found["run_id"], found["message_id"], found["seq"], steered=joined))

    async def _stop(self, run: str) -> None:
        """Stop a run after a moment, whatever it does by then."""
        await asyncio.sleep(self._chance.uniform(0, 1))
        answer = await self._net.ask("POST", f"/v1/runs/{run}/cancel")
        self.stops[run] = Stop(answer["status"], time.time())

    async def _read(self) -> None:
        """Follow the session at one server after the other: some are left, some are lost."""
        while True:
            url = self._net.chance.choice(self._net.urls)
            try:
                async with asyncio.timeout(self._chance.expovariate(1 / STAYS)) as stay:
                    await self._follow(url)
            except TimeoutError:
                assert stay.expired(), f"a stream that says nothing for {SILENT:g} s"
            except LOST as error:
                self._net.refused[f"stream {type(error).__name__}"] += 1
                await asyncio.sleep(0.2)

    async def _follow(self, url: str) -> None:
        headers = {**HEADERS, **({"Last-Event-ID": str(self.seen.seq)} if self.seen.seq else {})}
        path, silent = f"{url}/v1/sessions/{self.session}/events", aiohttp.ClientTimeout(sock_read=SILENT)
        async with self._net.http.get(path, headers=headers, timeout=silent) as response:
            if response.status != 200:
                self._net._refuse(response, await response.json(content_type=None), "GET events")
                await asyncio.sleep(0.3)
                return
            self.connections += 1
            rest = b""
            async for chunk in response.content.iter_any():
                *blocks, rest = (rest + chunk).split(b"\n\n")
                for block in blocks:
                    if not block.startswith(b":"):
                        self._take(block.decode())

    def _take(self, block: str) -> None:
        frame = self.seen.add(block)
        if frame.event in ENDS:
            self._ended.add(frame.data["run"])
        if frame.event in {*ENDS, "step.started"}:
            self._news.set()
