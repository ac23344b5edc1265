import assert from "node:assert/strict";
import { test } from "node:test";
import { anonymousToken } from "../src/anonymous/main.js";
import { json, problem, standIn } from "./server.js";

let good = "s1";
const server = standIn(({ body }) => {
  const { secret } = body as { secret?: string };
  return secret !== undefined && secret !== good ? problem(401, "secret_refused") : json(201, { token: `t-${good}`, expires_at: "2999-01-01T00:00:00.000Z", secret: good });
});

/** Do *run* in a browser whose storage is *kept*, and whose requests are answered by *ask*. */
async function inBrowser(kept: Map<string, string>, ask: typeof fetch, run: () => Promise<void>, locks?: object): Promise<void> {
  const localStorage = {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => void kept.set(key, value),
    removeItem: (key: string) => void kept.delete(key),
  };
  const names = { fetch: ask, localStorage, navigator: { locks } };
  const before = Object.keys(names).map((name) => [name, Object.getOwnPropertyDescriptor(globalThis, name)] as const);
  for (const [name, value] of Object.entries(names)) Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
  try {
    await run();
  } finally {
    for (const [name, own] of before) own ? Object.defineProperty(globalThis, name, own) : Reflect.deleteProperty(globalThis, name);
  }
}
const ask = async (): Promise<string> => (await anonymousToken("https://q.example", "sales", "k")).token;

test("a visitor without a name is the same one while the secret holds, and then a new one", async () => {
  const kept = new Map<string, string>();
  await inBrowser(kept, server.fetch, async () => {
    assert.equal(await ask(), "t-s1");
    assert.equal(await ask(), "t-s1");
    good = "s2";
    assert.equal(await ask(), "t-s2");
    assert.equal(kept.get("k:visitor"), "s2");
  });
  const secrets = server.seen.map(({ body }) => (body as { secret?: string }).secret ?? null);
  assert.deepEqual(secrets, [null, "s1", "s1", null]);
  assert.ok(server.seen.every(({ headers }) => headers.get("Authorization") === null));
});

test("a page that may not ask, or a server that is ill, costs no visitor the secret", async () => {
  for (const [status, code] of [[403, "forbidden"], [401, "unauthorized"], [503, "unavailable"]] as const) {
    const kept = new Map([["k:visitor", "kept"]]);
    const refusing = standIn(() => problem(status, code));
    await inBrowser(kept, refusing.fetch, () => assert.rejects(ask(), { status, code }));
    assert.deepEqual([refusing.seen.length, kept.get("k:visitor")], [1, "kept"]);
  }
});

test("a secret that was refused is forgotten, also when no other is to be had", async () => {
  const kept = new Map([["k:visitor", "dead"]]);
  const refusing = standIn(({ body }) => ("secret" in (body as object) ? problem(401, "secret_refused") : problem(429, "rate_limited")));
  await inBrowser(kept, refusing.fetch, () => assert.rejects(ask(), { code: "rate_limited" }));
  assert.deepEqual([refusing.seen.length, kept.size], [2, 0]);
});

test("two tabs that are opened at once are one visitor; a browser that gives no locks is no reason to have none", async () => {
  let before: Promise<unknown> = Promise.resolve();
  const locks = { request: (_name: string, _options: object, hold: () => Promise<unknown>) => (before = before.then(hold)) };
  let visitors = 0;
  const counting = standIn(async ({ body }) => {
    const { secret = `s${(visitors += 1)}` } = body as { secret?: string };
    return json(201, { token: `t-${secret}`, secret });
  });
  await inBrowser(new Map(), counting.fetch, async () => assert.deepEqual(await Promise.all([ask(), ask()]), ["t-s1", "t-s1"]), locks);
  const forbidding = { request: () => Promise.reject(new Error("SecurityError")) };
  await inBrowser(new Map(), counting.fetch, async () => assert.equal(await ask(), "t-s2"), forbidding);
});
