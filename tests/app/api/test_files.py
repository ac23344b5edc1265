"""Files over HTTP: sent before the message that takes them, read by those who may, refused when not safe."""

import io
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from PIL import Image

from agent_core.core import Core
from agent_core.messages import Actor, File, Text
from agent_core.testing import ScriptedProvider, say
from app.api import guard
from channels.web.identity import TokenSigner
from tests.app.conftest import caller
from tests.conftest import MakeCore
from tests.polling import PATIENCE
from tests.sent_files import document, image, pdf, photo, zip_bomb


@pytest.fixture
async def core(make_core: MakeCore) -> Core:
    """A core whose agent answers at once."""
    return await make_core(ScriptedProvider(lambda _: [say("Thanks.")]))


@pytest.fixture
async def other(app: FastAPI, core: Core, tokens: TokenSigner) -> AsyncIterator[httpx.AsyncClient]:
    """Another visitor."""
    agent = await core.agents.get("assistant")
    async with caller(app, tokens.visitor(Actor(id="ben", kind="visitor"), agent=agent.id).text) as client:
        yield client


async def sent(
    client: httpx.AsyncClient, data: bytes, name: str = "a.png", kind: str = "image/png", **fields: str
) -> httpx.Response:
    return await client.post("/v1/files", files={"file": (name, data, kind)}, data=fields)


async def opened(client: httpx.AsyncClient) -> str:
    return (await client.post("/v1/sessions", json={})).json()["id"]


async def test_a_file_is_sent_and_goes_with_a_message(visitor: httpx.AsyncClient, core: Core):
    """A visitor sends a file, then a message that names it; it is in the message, and is read as it is kept."""
    answer = await sent(visitor, photo(), "../../My: photo.jpeg", "image/jpeg")
    assert answer.status_code == 201
    made = answer.json()
    assert made.keys() == {"id", "name", "mime", "size", "session", "created_at"}
    assert (made["name"], made["mime"], made["session"]) == ("My photo.jpeg", "image/jpeg", None)
    session = await opened(visitor)
    path = f"/v1/sessions/{session}/messages"
    posted = await visitor.post(path, json={"text": "Look", "files": [made["id"]]})
    assert posted.status_code == 202
    await core.settled(posted.json()["run_id"], timeout=PATIENCE)
    (first, _) = (await visitor.get(path)).json()["items"]
    said, part = first["parts"]
    assert said == {"type": "text", "text": "Look"}
    assert part == {"type": "file", "file": made["id"], **{name: made[name] for name in ("name", "mime", "size")}}
    read = await visitor.get(f"/v1/files/{made['id']}")
    assert read.headers["content-type"] == "image/jpeg"
    assert (
        read.headers["content-disposition"]
        == "attachment; filename=\"My photo.jpeg\"; filename*=UTF-8''My%20photo.jpeg"
    )
    assert read.headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert read.headers["x-content-type-options"] == "nosniff"
    assert len(read.content) == made["size"]
    picture = Image.open(io.BytesIO(read.content))
    assert (picture.size, dict(picture.getexif())) == ((1045, 1568), {})
    assert b"Secret" not in read.content
    again = await visitor.get(f"/v1/files/{made['id']}", headers={"If-None-Match": read.headers["etag"]})
    assert again.status_code == 304


async def test_a_message_needs_a_text_or_files(visitor: httpx.AsyncClient, core: Core):
    """A message of files alone is taken, and titles its session; one of nothing, or with an empty text, is not."""
    made, path = (await sent(visitor, image())).json(), f"/v1/sessions/{await opened(visitor)}"
    posted = await visitor.post(f"{path}/messages", json={"files": [made["id"]]})
    assert posted.status_code == 202
    await core.settled(posted.json()["run_id"], timeout=PATIENCE)
    assert (await visitor.get(path)).json()["title"] == "a.png"
    for body, place in (({}, "text"), ({"text": " ", "files": [made["id"]]}, "text"), ({"files": []}, "files")):
        refused = await visitor.post(f"{path}/messages", json=body)
        assert (refused.status_code, refused.json()["errors"][0]["path"]) == (422, place)


async def test_a_file_is_used_once_in_a_session(visitor: httpx.AsyncClient, core: Core):
    """A repeated key gives the same answer, with other files another; a second message cannot have the same file."""
    made, path = (await sent(visitor, image())).json(), f"/v1/sessions/{await opened(visitor)}/messages"
    body = {"text": "Look", "files": [made["id"]], "idempotency_key": "k"}
    first = await visitor.post(path, json=body)
    assert (await visitor.post(path, json=body)).json() == first.json()
    mismatch = await visitor.post(path, json={"text": "Look", "idempotency_key": "k"})
    assert mismatch.json()["code"] == "idempotency_mismatch"
    await core.settled(first.json()["run_id"], timeout=PATIENCE)
    used = await visitor.post(path, json={"text": "Again", "files": [made["id"]]})
    assert (used.status_code, used.json()["errors"][0]["path"]) == (422, "files")
    elsewhere = f"/v1/sessions/{await opened(visitor)}/messages"
    assert (await visitor.post(elsewhere, json={"files": [made["id"]]})).status_code == 202


async def test_files_of_others_are_not_found(
    visitor: httpx.AsyncClient, other: httpx.AsyncClient, client: httpx.AsyncClient
):
    """Another visitor neither reads a file nor sends it on, whether a message took it or not; an operator reads it."""
    made, session = (await sent(visitor, image())).json(), await opened(visitor)
    unknown = (await other.get("/v1/files/file_unknown")).json()
    for _ in range(2):
        foreign = await other.get(f"/v1/files/{made['id']}")
        assert foreign.json() == {**unknown, "detail": unknown["detail"].replace("file_unknown", made["id"])}
        stolen = await other.post(f"/v1/sessions/{await opened(other)}/messages", json={"files": [made["id"]]})
        assert (stolen.status_code, stolen.json()["errors"][0]["path"]) == (422, "files[0]")
        assert (await client.get(f"/v1/files/{made['id']}")).status_code == 200
        await visitor.post(f"/v1/sessions/{session}/messages", json={"files": [made["id"]]})
    assert (await sent(other, image(), session=session)).status_code == 404


async def test_a_file_an_operator_sends_into_a_session_is_the_visitors(
    visitor: httpx.AsyncClient, other: httpx.AsyncClient, client: httpx.AsyncClient
):
    """An operator's file with a session is read by the visitor whose session it is, and by no other."""
    session = await opened(visitor)
    made = (await sent(client, image(), session=session)).json()
    assert made["session"] == session
    assert (await visitor.get(f"/v1/files/{made['id']}")).status_code == 200
    assert (await other.get(f"/v1/files/{made['id']}")).status_code == 404
    assert (await client.delete(f"/v1/sessions/{session}")).status_code == 204
    assert (await client.get(f"/v1/files/{made['id']}")).status_code == 404


SVG = b"<svg xmlns='http://www.w3.org/2000/svg'/>"
WORD = "application/zip"
REFUSED: dict[str, tuple[Callable[[], bytes], str, str, str]] = {
    "polyglot": (lambda: b"GIF89a<script>alert(1)</script>", "a.gif", "image/gif", "damaged"),
    "pixels": (lambda: image(size=(9000, 9000), mode="1"), "a.png", "image/png", "40 megapixels"),
    "zip bomb": (zip_bomb, "a.docx", WORD, "100 MB"),
    "svg": (lambda: SVG, "a.svg", "image/svg+xml", "cannot be sent"),
    "svg as png": (lambda: SVG, "a.png", "image/png", "name says"),
    "html": (lambda: b"<html><script>", "a.html", "text/html", "cannot be sent"),
    "html without an ending": (lambda: b"<html><script>", "page", "text/html", "cannot be sent"),
    "program": (lambda: b"MZ" + b"\0" * 400, "a.pdf", "application/pdf", "name says"),
    "cut off": (lambda: document("Hi")[:2000], "a.docx", WORD, "damaged"),
    "no pdf": (lambda: b"%PDF-1.4 nothing", "a.pdf", "application/pdf", "no PDF"),
    "no text": (lambda: b"a\0b", "a.txt", "text/plain", "no text"),
    "no json": (lambda: b"{", "a.json", "application/json", "no JSON"),
    "empty": (lambda: b"", "a.txt", "text/plain", "empty"),
}


async def test_what_is_not_what_it_says_is_refused(visitor: httpx.AsyncClient):
    """A file that is no image, no document or no text, whatever it calls itself, is refused in words."""
    for case, (make, name, kind, says) in REFUSED.items():
        refused = await sent(visitor, make(), name, kind)
        assert (refused.status_code, refused.json()["errors"][0]["path"]) == (422, "file"), case
        assert says in refused.json()["detail"], case


async def test_forms_are_bounded_before_they_are_read(visitor: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch):
    """30 MB are refused by their length, an endless form where it passes the bound, and what is no form at once."""
    announced = await visitor.post(
        "/v1/files",
        content=b"",
        headers={"Content-Type": "multipart/form-data; boundary=x", "Content-Length": "30000000"},
    )
    assert announced.status_code == 413
    arrived = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal arrived
        yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
        while True:
            arrived += 100_000
            yield b"a" * 100_000

    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    refused = await visitor.post("/v1/files", content=endless(), headers=headers)
    assert (refused.status_code, refused.json()["code"]) == (413, "too_large")
    assert arrived < 10_200_000
    monkeypatch.setattr(guard, "MAX_FORMS", guard.MAX_FORMS._replace(visitor=150_000))
    assert (await visitor.post("/v1/files", content=endless(), headers=headers)).status_code == 503
    for body, kind in ((b"{}", "application/json"), (b"--x--", "multipart/form-data"), (b"?", headers["Content-Type"])):
        answer = await visitor.post("/v1/files", content=body, headers={"Content-Type": kind})
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    odd = await visitor.post("/v1/files", files={"file": ("a.txt", b"a")}, data={"agent": "x"})
    assert odd.json()["errors"][0]["path"] == "agent"


async def test_an_agent_says_which_files_it_takes(visitor: httpx.AsyncClient, client: httpx.AsyncClient):
    """Types, sizes and numbers are the agent's to bound, and it may take none; operators are not bound by it."""
    limits = {"max_bytes": 5_000, "max_count": 1, "accept": ["text/plain"]}
    assert (await client.patch("/v1/agents/assistant", json={"web": {"files": limits}})).status_code == 200
    assert (await sent(visitor, image())).status_code == 422
    assert (await sent(visitor, b"a" * 5_001, "a.txt")).status_code == 413
    ids = [(await sent(visitor, b"a" * 5_000, "a.txt")).json()["id"] for _ in range(2)]
    path = f"/v1/sessions/{await opened(visitor)}/messages"
    assert (await visitor.post(path, json={"files": ids})).json()["errors"][0]["path"] == "files"
    assert (await visitor.post(path, json={"files": [ids[0], ids[0]]})).status_code == 422
    assert (await visitor.post(path, json={"files": ids[:1]})).status_code == 202
    await client.patch("/v1/agents/assistant", json={"web": {"files": None}})
    assert (await sent(visitor, b"a", "a.txt")).status_code == 403
    assert (await sent(client, image())).status_code == 201
    wrong = await client.patch("/v1/agents/assistant", json={"web": {"files": {"accept": ["image/svg+xml"]}}})
    assert (wrong.status_code, wrong.json()["errors"][0]["path"]) == (422, "web.files.accept[0]")


async def test_a_run_has_files_beside_its_input(client: httpx.AsyncClient, taken: list[Any]):
    """An operator's run takes files: documents with the text that stands for them."""
    made = (await sent(client, pdf("Hello PDF"), "a.pdf", "application/pdf")).json()
    run = await client.post("/v1/agents/assistant/runs", json={"input": "Sum up", "files": [made["id"]]})
    assert run.json()["status"] == "completed"
    text, part = taken[0].parts
    assert (text, part.file, part.pages) == (Text("Sum up"), made["id"], 1)
    assert isinstance(part, File)
    assert part.text is not None
