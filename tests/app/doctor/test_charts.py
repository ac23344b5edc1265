"""The doctor draws a chart, and says who is sent the data of charts."""

from typing import Any

import httpx
import pytest

from agent_core.charts.draw import Drawer, DrawingUnavailable
from app.checks import Finding
from app.doctor import charts
from app.settings import Settings
from tests.cases import for_each


def found(*, offline: bool = True, **given: Any) -> dict[str, Finding]:
    return {each.about: each for each in charts(Settings(_env_file=None, **given), offline=offline)}  # type: ignore[call-arg]


@pytest.mark.whole
def test_the_doctor_draws_a_chart():
    """A chart is really drawn: the finding says how large it is and how long it took."""
    (finding,) = found().values()
    assert (finding.level, finding.about) == ("ok", "charts")
    size = int(finding.text.partition(" bytes")[0].rpartition(" ")[2].replace(",", ""))
    assert size > 1_000
    assert finding.text.endswith(" ms")


def test_the_doctor_says_what_to_do_where_nothing_is_drawn(monkeypatch: pytest.MonkeyPatch):
    """Where the process cannot start the finding has its reason and names the package."""

    async def failing(self, spec, **_more):
        raise DrawingUnavailable("The renderer is not installed.")

    monkeypatch.setattr(Drawer, "png", failing)
    finding = found()["charts"]
    assert finding.level == "fail"
    assert "not installed" in finding.text
    assert "`vl-convert-python`" in finding.remedy


@for_each(
    "answer, level, says",
    [
        (httpx.Response(200), "ok", "links to charts.example, which is sent their data"),
        (httpx.Response(404), "warn", "charts.example answered 404"),
        (httpx.ConnectError("no"), "fail", "charts.example cannot be reached (ConnectError)"),
    ],
)
def test_the_doctor_says_who_gets_the_data_of_charts(
    monkeypatch: pytest.MonkeyPatch, answer: httpx.Response | Exception, level: str, says: str
):
    """With CHART_BACKEND=quickchart the server is named, and asked whether it is there unless that is not wanted."""
    asked: list[str] = []

    def get(url: str, **_more: Any) -> httpx.Response:
        asked.append(url)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def drawn(self, spec, **_more):
        return b"a picture"

    monkeypatch.setattr(Drawer, "png", drawn)
    monkeypatch.setattr(httpx, "get", get)
    given: dict[str, Any] = {"CHART_BACKEND": "quickchart", "QUICKCHART_URL": "https://charts.example"}
    assert found(**given)["quickchart"].text.endswith("not asked")
    assert asked == []
    finding = found(offline=False, **given)["quickchart"]
    assert (finding.level, asked) == (level, ["https://charts.example/healthcheck"])
    assert says in finding.text
