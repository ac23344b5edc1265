import assert from "node:assert/strict";
import { anonymousToken } from "../src/anonymous/main.js";
import { testPage } from "./page.js";
import { json, problem, standIn } from "./server.js";

let good = "s1";
const server = standIn(({ body }) => {
  const { secret } = body as { secret?: string };
  return secret !== undefined && secret !== good ? problem(401, "secret_refused") : json(201, { token: `t-${good}`, expires_at: "2999-01-01T00:00:00.000Z", secret: good });
});
const page = testPage("https://p.example/", server.fetch);

page.test("a visitor without a name is the same one while the secret holds, and then a new one", async () => {
  const ask = async (): Promise<string> => (await anonymousToken("https://q.example", "sales", "k")).token;
  assert.equal(await ask(), "t-s1");
  assert.equal(await ask(), "t-s1");
  good = "s2";
  assert.equal(await ask(), "t-s2");
  assert.equal(page.window.localStorage.getItem("k:visitor"), "s2");
  const secrets = server.seen.map(({ body }) => (body as { secret?: string }).secret ?? null);
  assert.deepEqual(secrets, [null, "s1", "s1", null]);
  assert.ok(server.seen.every(({ headers }) => headers.get("Authorization") === null));
});

page.test("a page that may not ask, or a server that is ill, costs no visitor its secret", async () => {
  const { localStorage } = page.window;
  for (const [status, code] of [[403, "origin_refused"], [401, "unauthorized"], [503, "unavailable"]] as const) {
    localStorage.setItem("k:visitor", "kept");
    const refusing = standIn(() => problem(status, code));
    Object.assign(globalThis, { fetch: refusing.fetch });
    await assert.rejects(anonymousToken("https://q.example", "sales", "k"), { status, code });
    assert.deepEqual([refusing.seen.length, localStorage.getItem("k:visitor")], [1, "kept"]);
  }
});

page.test("a secret that was refused is forgotten, also when no other is to be had", async () => {
  const { localStorage } = page.window;
  localStorage.setItem("k:visitor", "dead");
  const refusing = standIn(({ body }) => ("secret" in (body as object) ? problem(401, "secret_refused") : problem(429, "rate_limited")));
  Object.assign(globalThis, { fetch: refusing.fetch });
  await assert.rejects(anonymousToken("https://q.example", "sales", "k"), { code: "rate_limited" });
  assert.deepEqual([refusing.seen.length, localStorage.getItem("k:visitor")], [2, null]);
});
