import assert from "node:assert/strict";
import { test } from "node:test";
import { diagnose, type Setup } from "../src/notice/diagnose.js";
import { json, problem, standIn, type Answer } from "./server.js";

const FACE = { agent: { id: "agt_1", name: "sales" }, build: "b" };
const ISSUED = { token: "tok", expires_at: "2999-01-01T00:00:00.000Z" };
const fine: Answer = ({ path, headers }) => {
  if (path === "/token") return json(200, ISSUED);
  if (path.endsWith("/v1/web/anonymous")) return json(200, { ...ISSUED, secret: "s" });
  assert.equal(headers.get("Authorization"), "Bearer tok");
  return json(200, FACE);
};
const down = (): never => { throw new TypeError("Failed to fetch"); };
const html = (status: number): Response => new Response("<!doctype html>", { status, headers: { "Content-Type": "text/html" } });

/** Return the code of what is wrong, with *answer* in the place of all servers. */
async function code(answer: Answer, changes: Partial<Setup> = {}): Promise<string | null> {
  const setup: Setup = {
    page: "http://localhost:3000/help", server: "https://parley.example", agent: "sales", token: null, tokenUrl: "/token", anonymous: false,
    getToken: null, shared: () => Promise.reject(new Error("The widget has none.")), fetch: standIn(answer).fetch, signal: new AbortController().signal, blocked: () => false, ...changes,
  };
  const found = await diagnose(setup);
  assert.ok(!found || (found.fault && found.remedy), "each finding has its remedy");
  return found?.code ?? null;
}
const token = (answer: () => Response): Answer => (seen, signal) => (seen.path === "/token" ? answer() : fine(seen, signal));
const server = (answer: Answer): Answer => (seen, signal) => (seen.path === "/token" ? json(200, ISSUED) : answer(seen, signal));

test("nothing is wrong with a site that works, in each of the ways to a token", async () => {
  assert.equal(await code(fine), null);
  assert.equal(await code(fine, { agent: "agt_1" }), null);
  assert.equal(await code(fine, { agent: null }), null);
  assert.equal(await code(fine, { tokenUrl: null, token: "tok" }), null);
  assert.equal(await code(fine, { tokenUrl: null, anonymous: true }), null);
  assert.equal(await code(fine, { getToken: async () => "tok" }), null);
});

test("a token that the widget has is the one that is tried: the route is asked again only when it is refused", async () => {
  const shared = (): Promise<string> => Promise.resolve("tok");
  assert.equal(await code((seen, signal) => (seen.path === "/token" ? assert.fail("asked twice") : fine(seen, signal)), { shared }), null);
  assert.equal(await code(server(() => problem(404, "not_found")), { shared }), "agent_unknown");
  const expired = (): Response => json(200, { token: "tok", expires_at: "2020-01-01T00:00:00Z" });
  assert.equal(await code(({ path }) => (path === "/token" ? expired() : problem(401, "unauthorized")), { shared }), "token_expired");
});

const TOKENS: [string, () => Response][] = [
  ["token_missing", () => html(404)],
  ["token_refused", () => html(403)],
  ["token_failing", () => html(500)],
  ["token_unreachable", down],
  ["token_not_json", () => html(200)],
  ["token_shape", () => json(200, { jwt: "tok" })],
  ["token_shape", () => json(200, [])],
  ["token_expired", () => json(200, { token: "tok", expires_at: "2020-01-01T00:00:00Z" })],
];
for (const [expected, answer] of TOKENS) test(`the token route: ${expected}`, async () => assert.equal(await code(token(answer)), expected));

const SERVERS: [string, Answer][] = [
  ["token_invalid", () => problem(401, "unauthorized")],
  ["agent_unknown", () => problem(404, "not_found")],
  ["refused", () => problem(403, "forbidden")],
  ["server_failing", () => problem(503, "unavailable")],
  ["not_parley", () => html(200)],
  ["not_parley", () => html(404)],
  ["not_parley", () => json(200, { hello: "world" })],
  ["agent_other", () => json(200, { ...FACE, agent: { id: "agt_2", name: "support" } })],
  ["server_dead", down],
  ["origin", ({ path }) => (path.endsWith("/widget/parley-loader.js") ? html(200) : down())],
  ["server_dead", ({ path }) => (path.endsWith("/widget/parley-loader.js") ? html(502) : down())],
];
for (const [n, [expected, answer]] of SERVERS.entries()) test(`the server: ${expected} (${n})`, async () => assert.equal(await code(server(answer)), expected));

test("what is wrong with the attributes is said without a question to anyone", async () => {
  assert.equal(await code(down, { tokenUrl: null }), "token_none");
  assert.equal(await code(down, { server: "https://" }), "server_invalid");
  assert.equal(await code(down, { page: "https://shop.example/", server: "http://parley.example" }), "insecure");
  assert.equal(await code(fine, { page: "https://shop.example/", server: "http://localhost:8000" }), null, "browsers let this machine by");
  assert.equal(await code(down, { getToken: () => Promise.reject(new Error("No.")) }), "get_token");
});

test("a policy of the page is not mistaken for a server that cannot be reached", async () => {
  assert.equal(await code(server(down), { blocked: () => true }), "policy");
});

test("visitors without a name: an agent that allows none, or not on this page", async () => {
  const anonymous = { tokenUrl: null, anonymous: true };
  assert.equal(await code(() => problem(404, "not_found"), anonymous), "agent_unknown");
  assert.equal(await code(() => problem(403, "forbidden"), anonymous), "anonymous_refused");
  assert.equal(await code(({ path }) => (path.endsWith("/widget/parley-loader.js") ? html(200) : down()), anonymous), "origin");
});

test("a server that comes up while a proxy answers for it is no origin that is not allowed", async () => {
  let isUp = false;
  const restarting: Answer = (seen, signal) => {
    if (seen.path.endsWith("/widget/parley-loader.js")) return (isUp = true, html(200));
    return isUp ? fine(seen, signal) : down();
  };
  assert.equal(await code(server(restarting)), null);
});
