import assert from "node:assert/strict";
import { test } from "node:test";
import type { Api, Page, Session, Wanted } from "../src/operator/api.js";
import { counted, emptyWords, extended, isSame, NO_LISTING, refreshed, type Listing } from "../src/operator/listing.js";
import { createSide, linkOf, sessionOf } from "../src/operator/side.js";
import { ago, nameOf, WORDS } from "../src/operator/words.js";
import { testPage } from "./page.js";

function session(id: string, at = 0, changes: Partial<Session> = {}): Session {
  const time = new Date(at * 1000).toISOString();
  return { id, agent: "agt_1", actor: { id: "ada" }, title: null, status: "idle", created_at: time, last_activity_at: time, ...changes };
}
const page = (next: string | null, ...items: Session[]): Page<Session> => ({ items, next_cursor: next });
const ids = ({ items }: Listing): string => items.map(({ id }) => id).join("");
const [a, b, c, d] = [session("a", 4), session("b", 3), session("c", 2), session("d", 1)];
const two = extended(refreshed(NO_LISTING, page("1", a, b)), page(null, c, d));

test("a page after the first is added once", () => {
  assert.equal(ids(two), "abcd");
  assert.equal(two.next, null);
  assert.equal(ids(extended(two, page(null, d))), "abcd");
});

test("what has become active comes to the top, and what it pushes down stays", () => {
  const next = refreshed(two, page("1", session("d", 9), a));
  assert.equal(ids(next), "dabc");
  assert.equal(next.next, null);
});

test("what was deleted goes, and what follows it moves up", () => {
  assert.equal(ids(refreshed(two, page("1", a, c))), "acd");
});

test("a first page without anything of the list before begins the list again", () => {
  const next = refreshed(two, page("9", session("x", 9), session("y", 8)));
  assert.deepEqual([ids(next), next.next], ["xy", "9"]);
});

test("a whole list on one page replaces everything", () => {
  assert.equal(ids(refreshed(two, page(null, b))), "b");
});

test("only what a person would see counts as a change", () => {
  assert.ok(isSame(two, refreshed(two, page("1", { ...a }, { ...b }))));
  assert.ok(!isSame(two, refreshed(two, page("1", session("a", 4, { status: "waiting" }), b))));
  assert.ok(!isSame(NO_LISTING, refreshed(NO_LISTING, page(null))));
});

test("a conversation's address leads to it, and any other leads nowhere", () => {
  assert.equal(linkOf("ses_1"), "#/s/ses_1");
  for (const id of ["ses_1", "ses/2", "a b"]) assert.equal(sessionOf(linkOf(id)), id);
  for (const hash of ["", "#", "#/s/", "#/s/a/b", "#/x/a", "#/s/%"]) assert.equal(sessionOf(hash), null);
});

test("names and times are short, and show what cannot be seen", () => {
  assert.equal(nameOf({ id: "ada", name: "Ada" }), "Ada");
  assert.equal(nameOf({ id: "ada\u202e", name: null }), "ada\\u{202e}");
  const now = Date.parse("2026-03-03T12:00:30");
  assert.equal(ago("2026-03-03T12:00:00", now), "now");
  assert.equal(ago("2026-03-03T11:58:00", now), "2 min");
  assert.match(ago("2026-03-03T09:00:00", now), /9:00/);
  assert.match(ago("2026-02-01T09:00:00", now), /Feb/);
});

test("a search that found nothing among the newest says so, and keeps what it found among older ones", () => {
  const wanted = { text: "zebra", status: null };
  const first = refreshed(NO_LISTING, page("1"));
  assert.equal(emptyWords(first, wanted), WORDS.noneYet);
  const found = extended(first, page("2", d));
  assert.deepEqual([ids(refreshed(found, page("1"))), refreshed(found, page("1")).next], ["d", "2"]);
  assert.equal(emptyWords(refreshed(NO_LISTING, page(null)), wanted), WORDS.noneFound);
});

test("a number that is not the whole one says so", () => {
  assert.deepEqual([counted(page(null)), counted(page(null, a, b)), counted(page("9", a, b))], ["", "2", "2+"]);
});

const operators = testPage("http://localhost/operator", () => Promise.reject(new Error("nothing is asked")));
const waits = session("waits", 0, { status: "waiting" });
const newer = Array.from({ length: 51 }, (_, index) => session(`s${index}`, 100 - index));

/** Return what the list says of how many wait; the server has *all*. */
async function saidOfWaiting(all: readonly Session[]): Promise<{ readonly said: string; readonly asked: number }> {
  let asked = 0;
  const life = new AbortController();
  const listed = ({ status }: Wanted): readonly Session[] => all.filter((each) => status === null || each.status === status);
  const api = {
    sessions: (wanted: Wanted) => Promise.resolve({ items: listed(wanted).slice(0, 50), next_cursor: listed(wanted).length > 50 ? "50" : null }),
    waiting: () => (asked++, Promise.resolve(page(null, ...listed({ text: "", status: "waiting" })))),
    agents: () => Promise.resolve(new Map([["agt_1", "assistant"]])),
  } as unknown as Api;
  const said = await new Promise<string>((resolve) => {
    const pause = (): Promise<void> => new Promise(() => undefined);
    createSide({ api, head: document.createElement("header"), pause, isHidden: () => false, listed: () => undefined, waiting: resolve, now: () => 0, signal: life.signal });
  });
  life.abort();
  return { said, asked };
}

operators.test("one that waits is counted below 51 newer ones, and a list that is whole is counted itself", async () => {
  assert.deepEqual(await saidOfWaiting([...newer, waits]), { said: "1", asked: 1 });
  assert.deepEqual(await saidOfWaiting([a, waits]), { said: "1", asked: 0 });
});
