"""The published schemas, and the description of the API."""

import json
from itertools import product
from pathlib import Path

import httpx
import jsonschema
import msgspec
from fastapi import FastAPI

from agent_core.events import FACTS, LIVE, Fact
from app.api.body import OPEN
from app.api.schemas import PUBLISHED, events_schema, text
from app.api.sse import frame
from channels.web.visible import visible
from tests.cases import for_each
from tests.published import frame_schema

GOLDEN = Path(__file__).parents[2] / "golden"
LINES = [
    (path.stem, json.loads(line)) for path in sorted(GOLDEN.glob("*.jsonl")) for line in path.read_text().splitlines()
]


def test_the_committed_file_is_current():
    """docs/events.schema.json is what `python -m app.api.schemas` writes."""
    assert PUBLISHED.read_text(encoding="utf-8") == text()


def test_the_schema_is_a_schema():
    """The published file is valid JSON Schema, and covers every event type."""
    schema = events_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    kinds = {case["properties"]["event"]["const"] for case in schema["oneOf"]}
    assert kinds == {*FACTS, *LIVE}


def test_golden_frames_fit():
    """Each fact of the golden logs fits as an operator and as a visitor see it."""
    checked = set[bytes]()
    for show, (name, line) in product((None, "none", "names", "full"), LINES):
        if "seq" not in line:
            continue
        fact = Fact(
            seq=line["seq"],
            type=line["type"],
            session=line["session"],
            run=line["run"],
            parent_run=line["parent_run"],
            time=0,
            raw=msgspec.json.encode(line["data"]),
        )
        if show and visible(fact, show) is None:
            continue
        written = frame(fact, show)
        if written in checked:
            continue
        checked.add(written)
        head, kind, data = written.decode().strip().split("\n")
        value = {
            "id": int(head.removeprefix("id: ")),
            "event": kind.removeprefix("event: "),
            "data": json.loads(data.removeprefix("data: ")),
        }
        assert frame_schema().is_valid(value), (name, line)


@for_each(
    "wrong",
    [
        {"event": "run.started", "data": {}},
        {"id": 1, "event": "heartbeat", "data": {"run": "r", "parent_run": None, "time": "x"}},
        {"id": 1, "event": "brand.new", "data": {}},
        {"id": 0, "event": "run.queued", "data": {"run": "r", "parent_run": None, "time": "x", "session": "s"}},
    ],
)
def test_wrong_frames_do_not_fit(wrong):
    """A fact without its envelope or id, a live event with one, and an unknown type are refused."""
    assert not frame_schema().is_valid(wrong)


async def test_every_route_documents_its_problems(anyone: httpx.AsyncClient):
    """Every operation under /v1 asks for a bearer, but those that are open, and documents 401 and 403 as problems."""
    found = (await anyone.get("/openapi.json")).json()
    for path, operations in found["paths"].items():
        for method, operation in operations.items():
            if not path.startswith("/v1/"):
                assert operation["security"] == ([{"bearer": []}] if path == "/metrics" else [])
                continue
            assert operation["security"] == ([] if path in OPEN else [{"bearer": []}])
            for status in ("401", "403"):
                content = operation["responses"][status]["content"]
                assert set(content) == {"application/problem+json"}, (method, path)
            if "requestBody" in operation:
                assert {"400", "413", "422"} <= set(operation["responses"]), (method, path)


async def test_every_reference_leads_somewhere(app: FastAPI):
    """All `$ref`s of the description are there, and it is OpenAPI 3.1."""
    described = app.openapi()
    assert described["openapi"].startswith("3.1")
    names = {f"#/components/schemas/{name}" for name in described["components"]["schemas"]}
    found: set[str] = set()

    def walk(value: object) -> None:
        if isinstance(value, dict):
            found.update({value["$ref"]} if "$ref" in value else ())
            for each in value.values():
                walk(each)
        elif isinstance(value, list):
            for each in value:
                walk(each)

    walk(described)
    assert found <= names
    assert "#/components/schemas/HTTPValidationError" not in names
