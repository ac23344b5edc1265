"""Models at the start: what is built, what is closed, and what is warned of."""

import io
from collections.abc import Iterator
from datetime import date, timedelta

import pytest
import structlog

from agent_core.agents import Definition
from agent_core.clock import SystemClock
from agent_core.providers import base as known
from agent_core.providers.base import table
from app import models
from app.checks import models_of, of_model
from app.compose import running_core
from app.logs import configure
from app.models import Connected, running_models
from app.settings import Settings


@pytest.fixture
def logged(monkeypatch) -> Iterator[io.StringIO]:
    """What the logs say."""
    found = io.StringIO()
    monkeypatch.setattr("sys.stderr", found)
    configure()
    yield found
    structlog.reset_defaults()


def given(**settings) -> Settings:
    return Settings(_env_file=None, **settings)  # type: ignore[call-arg]


async def test_only_what_has_a_key_is_built():
    """Without a key there is the demo alone; each key and base URL brings its providers."""
    for settings in (
        given(),
        given(anthropic_api_key="a"),
        given(openai_api_key="o"),
        given(openai_base_url="http://localhost:1/v1", model="openai-compatible:m"),
        given(anthropic_api_key="a", openai_api_key="o"),
    ):
        async with running_models(settings, SystemClock()) as found:
            assert tuple(found.providers) == settings.providers
            assert found.default == settings.default_model


class BrokenProvider:
    """A provider whose SDK cannot be imported."""

    name = "anthropic"
    closed = False

    def accepts(self, model):
        return True

    def able(self, model):
        raise AssertionError

    def encoder(self, model):
        raise AssertionError

    def stream(self, request):
        raise AssertionError

    async def prepare(self):
        raise ImportError("no SDK; its key is hush-hush")

    async def close(self):
        self.closed = True


async def test_a_model_that_cannot_be_prepared_ends_nothing(monkeypatch, logged):
    """The server keeps running, names the provider that is not ready in one line, and closes it at the end."""
    broken = BrokenProvider()
    assert isinstance(broken, Connected)
    monkeypatch.setattr(models, "_connected", lambda settings: [broken])
    async with running_models(given(anthropic_api_key="hush-hush"), SystemClock()) as found:
        await found.prepare()
    (line,) = logged.getvalue().splitlines()
    assert "models.not_ready" in line
    assert "provider=anthropic" in line
    assert "hush" not in line
    assert broken.closed


async def test_the_table_of_models_is_read_before_the_first_question(database_path, tmp_path, monkeypatch):
    """A core that is ready does not read the table while a person waits for an answer."""
    read = []
    monkeypatch.setattr(known, "table", lambda: read.append(True) or table())
    settings = given(data=tmp_path, agents=tmp_path)
    async with running_models(settings, SystemClock()) as found, running_core(settings, found):
        assert read


@pytest.mark.parametrize(
    ("days", "event"), [(61, None), (60, "model.ending"), (0, "model.ending"), (-1, "model.ended")]
)
def test_the_end_of_a_model_is_warned_of(logged, days, event):
    """From 60 days before the day on which its vendor stops serving it, a model is a warning that names the day."""
    name, ends = next((name, model.ends) for name, model in table().models.items() if model.ends)
    found = list(of_model(name, given(), ends - timedelta(days=days), agent="anna"))
    assert len(found) == (event is not None)
    for each in found:
        each.log()
    lines = logged.getvalue().splitlines()
    for line in lines:
        assert [word for word in (event, name, ends.isoformat(), "anna") if word not in line] == []


def test_an_unlisted_model_of_a_known_provider_is_warned_of(logged):
    """One line names the model and who names it; it is a warning, because unlisted models work."""
    (found,) = of_model("anthropic:claude-sonet-5", given(), date(2026, 1, 1), agent="anna")
    found.log()
    (line,) = logged.getvalue().splitlines()
    assert [
        word for word in ("warning", "model.unlisted", "anthropic:claude-sonet-5", "agent anna") if word not in line
    ] == []


def test_known_models_without_an_end_are_not_warned_of():
    """Listed models without a last day, and models of a server of one's own, cause no line."""
    for name in ("demo", "openai-compatible:mine", *table().defaults.items()):
        model = name if isinstance(name, str) else ":".join(name)
        assert list(of_model(model, given(), date(2100, 1, 1))) == []


def test_all_models_of_an_agent_are_looked_at():
    """The fallback models count as well."""
    agent = Definition(name="a", instructions="b", model="demo", fallback_models=("openai:m", "anthropic:m"))
    assert list(models_of(agent)) == ["demo", "openai:m", "anthropic:m"]
