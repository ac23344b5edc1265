import assert from "node:assert/strict";
import { test } from "node:test";
import { anonymousToken } from "../src/anonymous/main.js";
import { json, problem, standIn } from "./server.js";

let good = "s1";
const server = standIn(({ body }) => {
  const { secret } = body as { secret?: string };
  return secret !== undefined && secret !== good ? problem(403, "secret_refused") : json(201, { token: `t-${good}`, expires_at: "2999-01-01T00:00:00.000Z", secret: good });
});

test("a visitor without a name is the same one while the secret holds, and then a new one", async () => {
  const kept = new Map<string, string>();
  const storage = { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => void kept.set(key, value) };
  const names = { fetch: server.fetch, localStorage: storage };
  const before = Object.entries(names).map(([name]) => [name, Object.getOwnPropertyDescriptor(globalThis, name)] as const);
  for (const [name, value] of Object.entries(names)) Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
  try {
    const ask = async (): Promise<string> => (await anonymousToken("https://q.example", "sales", "k")).token;
    assert.equal(await ask(), "t-s1");
    assert.equal(await ask(), "t-s1");
    good = "s2";
    assert.equal(await ask(), "t-s2");
    assert.equal(kept.get("k:visitor"), "s2");
  } finally {
    for (const [name, own] of before) own ? Object.defineProperty(globalThis, name, own) : Reflect.deleteProperty(globalThis, name);
  }
  const secrets = server.seen.map(({ body }) => (body as { secret?: string }).secret ?? null);
  assert.deepEqual(secrets, [null, "s1", "s1", null]);
  assert.ok(server.seen.every(({ headers }) => headers.get("Authorization") === null));
});
