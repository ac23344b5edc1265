"""Versions of the widget: what was given out stays, for the last builds, on both databases, with several servers."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from fastapi import FastAPI

from agent_core.store.database import Database
from agent_core.testing import FakeClock
from channels.web.routes import KEPT, STATIC, WidgetVersions, digest_of, script_router, widget
from tests.app.conftest import caller
from tests.conftest import Fresh

OLD = "0123456789ab"
CHAT, CARDS, GONE = b"export const chat = 1;", b"export const cards = 1;", b"export const gone = 1;"
FILES = {"parley-chat.js": CHAT, "parley-cards.js": CARDS, "parley-gone.js": GONE}


@pytest.fixture
async def database(fresh: Fresh) -> AsyncIterator[Database]:
    with fresh() as open_database:
        made = open_database()
        yield made
        await made.close()


async def test_a_page_with_an_older_version_goes_on_working(database: Database):
    """Its pinned script, the chunks that it loads from beside it, and what an open tab lacks are there."""
    versions = WidgetVersions(database, FakeClock())
    await versions.keep(OLD, FILES)
    app = FastAPI()
    app.include_router(script_router(versions))
    async with caller(app, "") as client:
        for name, content in FILES.items():
            version = digest_of(content)[:16]
            for address in (
                f"/widget/{OLD}/{name}",
                f"/widget/{OLD}/{name}?v={version}",
                f"/widget/{name}?v={version}",
            ):
                answer = await client.get(address)
                assert (answer.status_code, answer.content) == (200, content), address
                assert "immutable" in answer.headers["Cache-Control"]
                assert answer.headers["Access-Control-Allow-Origin"] == "*"
        for address in (
            f"/widget/{OLD}/parley-none.js",
            "/widget/0123456789ac/parley-chat.js",
            "/widget/parley-gone.js",
            f"/widget/parley-chat.js?v={digest_of(CARDS)[:16]}",
            "/widget/parley-chat.js?v=%25%25%25%25%25%25%25%25%25%25%25%25%25%25%25%25",
        ):
            assert (await client.get(address)).status_code == 404, address
        present = (STATIC / "parley-cards.js").read_bytes()
        for address in (
            f"/widget/{widget().build}/parley-cards.js?v={digest_of(present)[:16]}",
            "/widget/parley-cards.js",
        ):
            assert (await client.get(address)).content == present


async def test_the_last_builds_are_kept_by_when_they_were_served(database: Database):
    """One that is served once more is young again; several servers that start at once keep one copy."""
    clock = FakeClock()
    servers = [WidgetVersions(database, clock) for _ in range(3)]
    builds = [f"{n:012x}" for n in range(KEPT + 2)]
    for build in builds[:KEPT]:
        await asyncio.gather(*(each.keep(build, {"parley-chat.js": build.encode()}) for each in servers))
        clock.advance(1)
    await servers[0].keep(builds[0], {"parley-chat.js": b"not this: a build never changes"})
    clock.advance(1)
    for build in builds[KEPT:]:
        await servers[1].keep(build, {"parley-chat.js": build.encode()})
        clock.advance(1)
    found = [await WidgetVersions(database, clock).find(build, "parley-chat.js") for build in builds]
    assert found == [builds[0].encode(), None, None, *(build.encode() for build in builds[3:])]
