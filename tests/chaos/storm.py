"""A storm: talks go on while the processes that serve and drive them are killed, stopped, cut off and replaced."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import aiohttp

from tests.chaos import check
from tests.chaos.fleet import ChaosFleet, Home, Kind, Member, models, running
from tests.chaos.goals import Goals, stop_times
from tests.chaos.plan import chance
from tests.chaos.records import Fact, Records, until
from tests.chaos.takeover import Loss, Takeover, orphans, takeovers
from tests.chaos.talk import ANSWERED, Net, Talk
from tests.chaos.tools import ExecutionFile
from tests.postgres import PostgresServer, postgres_server

# Seconds after which what is waited for will not come: much, for a machine that is busy with more than this.
PATIENCE = 180.0
TAKEN = 60.0
# Grace in seconds of the processes that are terminated in a hurry: less than most runs take.
HURRY = "0.5"
# What a process says that ends by itself, and may.
MAY_END = ("worker.ends_itself", "DATABASE_URL: ")


@dataclass(frozen=True, slots=True)
class Weather:
    """What a storm does: *calm* are the seconds before it and after each part of it.

    *pause* is the mean of the seconds between two kills, *away* each absence of the database, *deploys* the processes
    that are replaced one after the other; of these the *hurried* hand on what they drive instead of ending it. *goals*
    are what it is held to, on a machine that has nothing else to do. Of the first *at_work* kills those of drivers wait
    until there is a run to take over; all others come at any moment.
    """

    seed: int
    members: Mapping[str, Kind]
    talks: int
    kills: int
    pause: float
    zombies: int
    away: tuple[float, ...]
    deploys: int
    hurried: tuple[str, ...] = ()
    goals: Goals | None = None
    calm: float = 5.0
    rate: float = 40
    stopped: float = 12.0
    at_work: int = 0
    quiet: float = 150.0


@dataclass(frozen=True, slots=True)
class Deploy:
    """A process was replaced: it ended *seconds* after SIGTERM, and *left* runs still had it as owner."""

    loss: Loss
    seconds: float
    left: int
    hurried: bool


@dataclass(slots=True)
class StormRecord:
    """What happened: *away* has the times from which and to which runs could not go on for want of the database.

    *stops* has the seconds that each stop took, see `Goals`.
    """

    kills: list[Loss] = field(default_factory=list)
    web_kills: int = 0
    zombies: list[str] = field(default_factory=list)
    deploys: list[Deploy] = field(default_factory=list)
    outages: list[str] = field(default_factory=list)
    away: list[tuple[float, float]] = field(default_factory=list)
    logs: dict[str, list[Fact]] = field(default_factory=dict)
    takeovers: list[Takeover] = field(default_factory=list)
    stops: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)

    def tell(self, what: str) -> None:
        """Note when something was done."""
        self.events.append(f"{time.time():.3f} {what}")

    def handed_on(self, deploy: Deploy) -> list[float]:
        """Return when others went on with what a process drove that was replaced, in seconds after its end."""
        return [each.seconds for log in self.logs.values() for each in takeovers([deploy.loss], log)]


class Storm:
    """One storm over one fleet; `blow` returns when all is quiet again and checked."""

    def __init__(self, weather: Weather, fleet: ChaosFleet, server: PostgresServer, records: Records, net: Net) -> None:
        self.weather, self.fleet, self.net, self.story = weather, fleet, net, StormRecord()
        self._server, self._records = server, records
        self._chance = chance(weather.seed, "storm")
        self._over = asyncio.Event()
        names = [f"t{n}" for n in range(weather.talks)]
        self.talks = [Talk(name, net, chance(weather.seed, name), self._over) for name in names]
        self._spared: set[str] = set()

    async def blow(self) -> StormRecord:
        """Have it all, one after the other, while the talks go on; then wait until they are over, and check."""
        async with asyncio.TaskGroup() as group:
            self.story.tell("begins")
            for member in self.fleet.members:
                await self._up(member)
            self.story.tell("all are up")
            keeping = group.create_task(self._keep())
            talking = [group.create_task(talk.run()) for talk in self.talks]
            await asyncio.sleep(self.weather.calm)
            await self._kill_and_stop()
            for seconds in self.weather.away:
                await self._without_database(seconds)
                await asyncio.sleep(self.weather.calm)
            await self._deploy()
            self.story.tell("quiet")
            self._over.set()
            await asyncio.wait(talking, timeout=self.weather.quiet)
            self.story.faults += [f"{t.name}: {len(t.open)} runs never ended" for t in self.talks if t.open]
            for task in (*talking, keeping):
                task.cancel()
        self.story.tell("all is answered")
        await self._check()
        return self.story

    async def _up(self, member: Member) -> None:
        """Return once *member* has said that it lives; one that ended by itself is started again, as a host does."""

        async def lives() -> bool:
            await self._revive(member)
            return await self._records.has(member.pid)

        await until(lives, PATIENCE, f"{member.name} says that it lives")

    async def _revive(self, member: Member) -> None:
        """Start *member* again if it has ended by itself; what stood still may do that, or began without a database."""
        if member.is_running:
            return
        code, said = await member.gone(), member.log.read_text("utf-8")[-2_000:]
        self.story.tell(f"{member.name} ended by itself with {code}")
        if not any(why in said for why in MAY_END):
            self.story.faults.append(f"{member.name} ended by itself with {code}")
        await member.start()

    async def _keep(self) -> None:
        """Do what the host of the processes does: start those again that have ended, and that nothing is done to."""
        while True:
            await asyncio.sleep(1)
            for member in self.fleet.members:
                if member.name not in self._spared:
                    await self._revive(member)

    async def _pause(self, seconds: float) -> None:
        await asyncio.sleep(self._chance.uniform(0, 2 * seconds))

    async def _kill_and_stop(self) -> None:
        """Kill at random moments; meanwhile some workers are stopped for longer than the dead can be waited for."""
        async with asyncio.TaskGroup() as group:
            stopping = group.create_task(self._stop_some())
            webs = max(1, self.weather.kills // 20) if self.weather.kills else 0
            plan = [True] * webs + [False] * (self.weather.kills - webs)
            self._chance.shuffle(plan)
            for n, in_request in enumerate(plan):
                await self._pause(self.weather.pause)
                member = await self._victim(self.fleet.webs if in_request else self.fleet.drivers)
                await self._up(member)
                if in_request:
                    await self._in_request(member)
                elif n < self.weather.at_work:
                    await until(partial(self._records.held_by, member.pid), PATIENCE, f"{member.name} drives a run")
                self._lose(member, group)
            await stopping

    async def _victim(self, members: Sequence[Member]) -> Member:
        """Return one of *members* that nothing is done to yet, once there is one; from now on something is."""

        async def some() -> list[Member]:
            return [each for each in members if each.name not in self._spared]

        await until(some, PATIENCE, "a process to do something to")
        member = self._chance.choice(await some())
        self._spared.add(member.name)
        return member

    async def _in_request(self, member: Member) -> None:
        """Return when *member* was killed while it had a request before it; without one in time it is killed anyway."""
        killed = asyncio.Event()

        def kill() -> None:
            member.signal(signal.SIGKILL)
            killed.set()

        self.net.trap = (member.url, kill)
        try:
            async with asyncio.timeout(10):
                await killed.wait()
            self.story.web_kills += 1
        except TimeoutError:
            self.net.trap = None

    def _lose(self, member: Member, group: asyncio.TaskGroup) -> None:
        """Kill *member*, and have it note what it held and come back."""
        at = time.time()
        member.signal(signal.SIGKILL)
        self.story.tell(f"SIGKILL {member.name} {member.pid}")
        group.create_task(self._come_back(member, at))

    async def _come_back(self, member: Member, at: float) -> None:
        await member.gone()
        held = await self._records.held_by(member.pid)
        self.story.kills.append(Loss(at, member.name, tuple(held)))
        await self._pause(0.5)
        await member.start()
        self._spared.discard(member.name)

    async def _stop_some(self) -> None:
        for _ in range(self.weather.zombies):
            await self._pause(1)
            self.story.tell("looks for a worker to stop")
            await until(self._at_work, PATIENCE, "a worker that drives something")
            member = self._chance.choice(await self._at_work() or self.fleet.drivers[-1:])
            self._spared.add(member.name)
            await self._zombie(member)
            self._spared.discard(member.name)

    async def _at_work(self) -> list[Member]:
        """Return the workers that drive something; none that serves: its clients would wait for it when it stops."""
        workers = [each for each in self.fleet.drivers if each.kind == "worker" and each.name not in self._spared]
        return [each for each in workers if each.is_running and await self._records.held_by(each.pid)]

    async def _zombie(self, member: Member) -> None:
        """Stop *member* in the middle of its runs, wake it when others have them, and see what it does then."""
        member.signal(signal.SIGSTOP)
        self.story.tell(f"SIGSTOP {member.name} {member.pid}")
        held = await self._records.held_by(member.pid)
        begin = time.monotonic()

        async def taken() -> bool:
            return not await self._records.still(held)

        try:
            took = await until(taken, TAKEN, f"the runs of {member.name}, which is stopped, are taken over")
        except AssertionError as error:
            self.story.faults.append(f"{error}\n{await self._records.activity()}")
            took = TAKEN
        await asyncio.sleep(max(0.0, self.weather.stopped - (time.monotonic() - begin)))
        member.signal(signal.SIGCONT)
        self.story.tell(f"SIGCONT {member.name} {member.pid}")
        try:
            end = f"ended itself with {await member.gone(8)}"
            await member.start()
        except TimeoutError:
            end = "lives on"
        self.story.zombies.append(f"{member.name}: {len(held)} runs, taken over within {took:.1f} s; woken it {end}")

    async def _without_database(self, seconds: float) -> None:
        """Cut everybody off for *seconds*, without a word of warning."""
        refused = dict(self.net.refused)
        self.story.tell(f"no database for {seconds:g} s")
        gone = time.time()
        await asyncio.to_thread(self._server.stop, "immediate")
        await asyncio.sleep(seconds)
        await asyncio.to_thread(self._server.start)
        self.story.tell("the database is back")
        seen = {name: n - refused.get(name, 0) for name, n in self.net.refused.items() if n > refused.get(name, 0)}
        self.story.outages.append(f"{seconds:g} s away; what clients got: {seen}")
        ended = sum(len(talk.receipts) - len(talk.open) for talk in self.talks)

        async def goes_on() -> bool:
            return sum(len(talk.receipts) - len(talk.open) for talk in self.talks) >= ended + len(self.talks)

        try:
            took = await until(goes_on, PATIENCE, "runs go on after the database was away")
            self.story.outages.append(f"as many runs as there are talks had ended {took:.1f} s after it was back")
        except AssertionError as error:
            self.story.faults.append(str(error))
        self.story.away.append((gone, time.time()))
        for member in self.fleet.members:
            await self._up(member)

    async def _deploy(self) -> None:
        """Replace one process after the other, as a deploy does."""
        for member in self.fleet.members[-self.weather.deploys :] if self.weather.deploys else ():
            await self._up(member)
            self._spared.add(member.name)
            held, at = await self._records.held_by(member.pid), time.time()
            member.signal(signal.SIGTERM)
            self.story.tell(f"SIGTERM {member.name} {member.pid}")
            try:
                code = await member.gone()
            except TimeoutError:
                self.story.faults.append(f"{member.name} did not end after SIGTERM")
                await member.kill()
                code = -9
            if code != 0:
                self.story.faults.append(f"{member.name} ended with {code} after SIGTERM")
            left = len(await self._records.held_by(member.pid))
            loss, hurried = Loss(time.time(), member.name, tuple(held)), member.name in self.weather.hurried
            self.story.deploys.append(Deploy(loss, loss.at - at, left, hurried))
            await member.start()
            self._spared.discard(member.name)
            await self._up(member)

    async def _check(self) -> None:
        """Hold the whole story against what must be true."""
        story = self.story
        for web in self.fleet.webs:
            await self._up(web)
        story.faults += [f"an answer that must not occur: {each}" for each in dict.fromkeys(self.net.faults)]
        story.logs = await self._records.sessions()
        executions = ExecutionFile(self.fleet.home.ledger).read()
        for talk in self.talks:
            facts = story.logs.get(talk.session, [])
            found = list(check.faults(talk, facts, executions))
            for web in self.fleet.webs:
                found += check.listed(await self._messages(web, talk.session), facts)
            if found:
                log = "\n".join(map(str, facts))
                story.faults.append(f"{talk.name} {talk.session}:\n  " + "\n  ".join(found) + f"\n{log}")
            story.takeovers += takeovers(story.kills, facts)
            story.stops += stop_times(talk.stops, facts, story.away)
        self._hold()

    def _hold(self) -> None:
        """Check what became of the killed and of the terminated processes against the goals."""
        story = self.story
        lost = [*story.kills, *(deploy.loss for deploy in story.deploys)]
        story.faults += orphans(lost, [fact for log in story.logs.values() for fact in log])
        hurried = [deploy for deploy in story.deploys if deploy.hurried]
        if hurried and not any(map(story.handed_on, hurried)):
            story.faults.append(f"of {len(hurried)} processes that were terminated in a hurry none handed a run over")
        if self.weather.goals is not None:
            story.faults += self.weather.goals.missed(story.takeovers, story.stops)

    async def _messages(self, web: Member, session: str) -> list[dict]:
        """Return all messages of *session* as *web* lists them."""
        items: list[dict] = []
        cursor = ""
        while True:
            path = f"/v1/sessions/{session}/messages?limit=100{cursor}"
            page = await Net(self.net.http, [web.url], self._chance).ask("GET", path)
            items += page["items"]
            if page["next_cursor"] is None:
                return items
            cursor = f"&cursor={page['next_cursor']}"


@asynccontextmanager
async def brewing(weather: Weather, folder: Path) -> AsyncIterator[Storm]:
    """Give a storm over a database, models and processes of its own; all of them end with it."""
    async with AsyncExitStack() as stack:
        # What was committed must be there after the server was killed.
        server = stack.enter_context(postgres_server(synchronous_commit="on"))
        database = server.create()
        home = Home(folder, database, await stack.enter_async_context(models(weather.rate)))
        hurried = {name: {"PARLEY_GRACE": HURRY} for name in weather.hurried}
        fleet = await stack.enter_async_context(running(home, weather.members, hurried))
        patience = aiohttp.ClientTimeout(total=None, sock_connect=ANSWERED, sock_read=ANSWERED)
        http = aiohttp.ClientSession(timeout=patience, connector=aiohttp.TCPConnector(limit=0))
        net = Net(await stack.enter_async_context(http), [each.url for each in fleet.webs], chance(weather.seed, "net"))
        yield Storm(weather, fleet, server, Records(database), net)
