"""Metrics in Prometheus's text format: what this process did, and what is open over all processes."""

import asyncio
from collections import Counter as Count
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, get_args

from prometheus_client import CollectorRegistry, Counter, Histogram, Metric, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from agent_core.core import Core
from agent_core.counters import Counters, histogram
from agent_core.errors import Unavailable
from agent_core.listings import ServerStatus
from agent_core.store.queue import Figures, Kind
from app.serving.connections import Connections

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
TIMEOUT = 3.0
"""Seconds for the database to answer: Prometheus waits for ten by default."""


class Requests:
    """HTTP requests of this process by method, route and status, and the seconds to their first byte by route."""

    def __init__(self) -> None:
        labels = ("method", "route", "status")
        self._count = Counter("parley_http_requests", "HTTP requests that were answered.", labels, registry=None)
        text = "From a request to the first byte of its answer."
        self._seconds = histogram("parley_http_first_byte_seconds", text, labels=("route",))

    def note(self, method: str, route: str, status: int, seconds: float) -> None:
        self._count.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def collect(self) -> Iterator[Metric]:
        """Give what was counted."""
        yield from collected(self._count, self._seconds)


class Metrics:
    """Reads the counters of a core and of its HTTP server; *streams* returns how many streams are open."""

    def __init__(
        self,
        core: Core,
        requests: Requests | None = None,
        streams: Callable[[], int] = int,
        connections: Connections | None = None,
    ) -> None:
        self._core, self._requests, self._streams = core, requests or Requests(), streams
        self._connections = connections or Connections()

    async def text(self) -> bytes:
        """Return everything in Prometheus's text format; while the database is away, what this process knows."""
        try:
            async with asyncio.timeout(TIMEOUT):
                figures = await self._core.health.figures()
        except (Unavailable, TimeoutError):
            figures = None
        registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=registry)
        registry.register(_Families([*self._own(), *self._shared(figures)]))
        return generate_latest(registry)

    def _own(self) -> Iterator[Any]:
        counters = self._core.counters
        yield from _work(counters)
        yield from _models(counters)
        text = "Hooks that could not be asked, or whose answer made no sense."
        yield _counter("parley_hook_errors", text, ("hook_type", "event"), self._core.health.hook_errors)
        yield from collected(counters.first_text, counters.seconds, counters.appends, counters.late)
        servers = Count((each,) for each in self._core.tools.servers.statuses)
        counts = {**dict.fromkeys(((each,) for each in get_args(ServerStatus)), 0), **servers}
        yield _gauges("parley_mcp_servers", "MCP servers by how they are.", ("status",), counts)
        yield _gauge("parley_streams", "Open event streams, and requests that wait for a run.", self._streams())
        yield from self._requests.collect()
        yield _gauge("parley_connections", "Open connections.", self._connections.count)
        yield from collected(self._connections.refused)
        if (pool := self._core.health.pool) is not None:
            yield _gauge("parley_database_in_use", "Transactions that run in this process.", pool.in_use)
            yield _gauge("parley_database_waiting", "Transactions that wait for their turn.", pool.waiting)
        if (bus := self._core.health.flushing) is not None:
            yield from collected(bus.flushes)
            yield _counter("parley_bus_rows", "Rows of live text written for the other processes.", (), {(): bus.rows})

    def _shared(self, figures: Figures | None) -> Iterator[Any]:
        yield _gauge("parley_database_up", "Whether the database answered just now.", figures is not None)
        if figures is None:
            return
        runs = {(name,): number for name, number in {"queued": 0, "running": 0, **figures.runs}.items()}
        yield _gauges("parley_open_runs", "Runs of all processes that have not ended.", ("status",), runs)
        zeros = dict.fromkeys(get_args(Kind), 0) if figures.workers else {}  # a kind that is gone must not be missing
        kinds = {(name,): number for name, number in {**zeros, **figures.workers}.items()}
        yield _gauges("parley_workers", "Live processes by kind; none on SQLite.", ("kind",), kinds)
        yield _gauge(
            "parley_oldest_queued_seconds",
            "How long the oldest queued run has waited for a process to drive it.",
            figures.waits,
        )


def _work(counters: Counters) -> Iterator[Any]:
    yield _counter("parley_messages", "Messages taken in.", (), {(): counters.messages})
    yield _counter("parley_runs_started", "Runs that were begun.", (), {(): counters.started})
    yield _counter("parley_runs_ended", "Runs that ended.", ("status", "reason"), counters.ended)
    yield _counter("parley_runs_resumed", "Runs that were resumed.", ("cause",), _keys(counters.resumed))
    limited = "Messages and sessions that a limit refused."
    yield _counter("parley_rate_limited", limited, ("limit",), _keys(counters.limited))
    yield _counter("parley_tool_calls", "Tool calls that ended.", ("tool", "outcome"), counters.calls)


def _models(counters: Counters) -> Iterator[Any]:
    yield _counter("parley_steps", "Model calls that were completed.", ("model",), _keys(counters.steps))
    yield _counter("parley_model_retries", "Model calls after a failed one.", ("model",), _keys(counters.retries))
    yield _counter("parley_model_failures", "Model calls that failed.", ("kind",), _keys(counters.failures))
    yield _counter("parley_tokens", "Tokens, as providers bill them.", ("model", "kind"), counters.tokens)
    share = {(model,): share for model, share in counters.cache_share().items()}
    text = "Part of the prompt tokens since the start of the process that was read from the cache."
    yield _gauges("parley_cache_share", text, ("model",), share)
    text = "Model calls that read less from the prompt cache than they should have."
    yield _counter("parley_cache_misses", text, ("cause",), _keys(counters.misses))
    text = "Compactions by kind, and those that failed."
    yield _counter("parley_compactions", text, ("kind",), _keys(counters.compactions))
    cost = {(model,): float(usd) for model, usd in counters.cost.items()}
    yield _counter("parley_cost_usd", "What models cost in US dollars, where a price is known.", ("model",), cost)


class _Families:
    """Hands ready families to a registry."""

    def __init__(self, families: Sequence[Any]) -> None:
        self._families = families

    def collect(self) -> Iterable[Any]:
        return self._families


def _keys(counts: Mapping[str, int]) -> dict[tuple[str, ...], float]:
    return {(name,): number for name, number in counts.items()}


def _counter(name: str, text: str, labels: Sequence[str], counts: Mapping[Any, float]) -> Any:
    return _filled(CounterMetricFamily(name, text, labels=labels), counts)


def _gauges(name: str, text: str, labels: Sequence[str], values: Mapping[Any, float]) -> Any:
    return _filled(GaugeMetricFamily(name, text, labels=labels), values)


def _filled(family: Any, values: Mapping[Any, float]) -> Any:
    for key, value in values.items():
        family.add_metric(list(key), value)
    return family


def _gauge(name: str, text: str, value: float) -> Any:
    return _gauges(name, text, (), {(): float(value)})


def collected(*metrics: Counter | Histogram) -> Iterator[Metric]:
    """Give the samples of *metrics* without the times at which they were created: we publish none of those."""
    for metric in metrics:
        for family in metric.collect():
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
            if family.samples or not family.name.endswith("_created"):
                yield family
