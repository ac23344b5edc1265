import assert from "node:assert/strict";
import { test } from "node:test";
import { JSDOM } from "jsdom";
import { createClient, requester, sender, type ClientOptions } from "../src/wire/client.js";
import { createAccess, type Operator } from "../src/operator/access.js";
import { createApi } from "../src/operator/api.js";
import { openDesk, shownOf, type Desk, type DeskActions } from "../src/operator/desk.js";
import { createReplyBox } from "../src/operator/replybox.js";
import { tokenSource } from "../src/wire/token.js";
import { json, problem, sse, standIn, stream, type Answer, type Seen } from "./server.js";

const { window } = new JSDOM("<!doctype html><body>", { pretendToBeVisual: true });
Object.assign(globalThis, { document: window.document, AbortController: window.AbortController, AbortSignal: window.AbortSignal, Node: window.Node });
const tick = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 10));

const ASKED =
  sse(1, "message.received", "run_1", { message: "msg_1", actor: { id: "ada" }, parts: [{ type: "text", text: "Pay" }] }) +
  sse(2, "run.queued", "run_1", {}) + sse(3, "run.started", "run_1", { epoch: 1 }) +
  sse(4, "step.started", "run_1", { n: 1, attempt: 1, message: "msg_2", takes: [1] }) +
  sse(5, "tool.requested", "run_1", { call: "call_1", name: "pay", arguments: {}, index: 0, step: 1 }) +
  sse(6, "approval.requested", "run_1", { approval: "apr_1", call: "call_1", tool: "pay", title: "Pay?", arguments: {}, responders: ["operators"], quorum: 1, timeout_s: 300 });

interface Setting {
  readonly desk: DeskActions;
  readonly seen: readonly Seen[];
  readonly now: () => Desk;
  readonly life: AbortController;
  readonly can: { approve: boolean };
}

function setting(answer: Answer, approve = true): Setting {
  const life = new AbortController();
  const server = standIn((seen, signal) => (seen.path.includes("/events") ? stream(ASKED, signal) : answer(seen, signal)));
  const tokens = tokenSource({ token: "t", url: null, getToken: null, fetch: server.fetch, signal: life.signal, now: () => 0 });
  const options: ClientOptions = { server: "", tokens, fetch: server.fetch, pause: async () => undefined, random: () => 1 };
  const request = requester(options);
  const can = { approve };
  let now: Desk | null = null;
  const desk = openDesk({
    session: "ses_1", client: createClient(options), api: createApi(request, sender(options, request)),
    changed: (next) => (now = next), mayApprove: () => can.approve, signal: life.signal,
  });
  return { desk, seen: server.seen, now: () => now as unknown as Desk, life, can };
}
const mayDecide = (desk: Desk): boolean | undefined => shownOf(desk).view.calls[0]?.approval?.mayDecide;

test("whether this key may decide is the server's word, asked for once", async () => {
  for (const may of [true, false]) {
    const { now, life, seen } = setting(() => json(200, { may_decide: may }));
    await tick();
    assert.equal(mayDecide(now()), may);
    assert.equal(seen.filter(({ path }) => path === "/v1/approvals/apr_1").length, 1);
    life.abort();
  }
});

test("a key that may not approve has no buttons, and asks for nothing", async () => {
  const { now, life, seen, can, desk } = setting(() => json(200, { may_decide: true }), false);
  await tick();
  assert.equal(mayDecide(now()), false);
  assert.ok(!seen.some(({ path }) => path.includes("approvals")));
  can.approve = true;
  desk.review();
  await tick();
  assert.equal(mayDecide(now()), true, "the key got the scope");
  can.approve = false;
  desk.review();
  assert.equal(mayDecide(now()), false, "the key lost it");
  life.abort();
});

test("a refused decision says why at its card, and a refused Stop can be tried again", async () => {
  const { now, life, desk } = setting(({ method }) => (method === "POST" ? problem(403, "forbidden") : json(200, { may_decide: true })));
  await tick();
  desk.decide("apr_1", { approved: true });
  assert.equal(now().conversation.decisions["apr_1"]?.sending, true);
  desk.stop("run_1");
  assert.deepEqual(now().conversation.stopping, ["run_1"]);
  await tick();
  assert.equal(now().conversation.decisions["apr_1"]?.problem?.code, "forbidden");
  assert.deepEqual(now().conversation.stopping, []);
  assert.equal(now().conversation.problem?.code, "forbidden");
  desk.dismiss();
  assert.equal(now().conversation.problem, null);
  life.abort();
});

test("a conversation that is not there says so", async () => {
  const life = new AbortController();
  const server = standIn(() => problem(404, "not_found"));
  const tokens = tokenSource({ token: "t", url: null, getToken: null, fetch: server.fetch, signal: life.signal, now: () => 0 });
  const options: ClientOptions = { server: "", tokens, fetch: server.fetch, pause: async () => undefined, random: () => 1 };
  const request = requester(options);
  const seen: Desk[] = [];
  openDesk({ session: "x", client: createClient(options), api: createApi(request, sender(options, request)), changed: (desk) => seen.push(desk), mayApprove: () => true, signal: life.signal });
  await tick();
  assert.equal(seen.at(-1)?.missing, true);
});

function box(send: (reply: { text: string; name: string; key: string }) => Promise<void>): { area: HTMLTextAreaElement; said: () => string; post: () => Promise<void> } {
  let keys = 0;
  const made = createReplyBox({ name: "Mara", renamed: () => undefined, send, newKey: () => `key_${++keys}`, signal: new AbortController().signal });
  const area = made.node.querySelector("textarea") as HTMLTextAreaElement;
  const post = (): Promise<void> => (made.node.querySelector("form")?.dispatchEvent(new window.Event("submit", { cancelable: true })), tick());
  return { area, post, said: () => made.node.querySelector(".said")?.textContent ?? "" };
}

test("a reply that fails stays in its box, and goes out under the same key when it is sent again", async () => {
  const sent: unknown[] = [];
  let fails = true;
  const { area, post, said } = box(async (reply) => {
    sent.push(reply);
    if (fails) throw Object.assign(new Error("Gone."), { status: 409, code: "session_closed", errors: [], retryAfter: null });
  });
  area.value = " Hello, Ada. ";
  await post();
  assert.equal(said(), "This conversation is closed.");
  assert.equal(area.value, " Hello, Ada. ");
  fails = false;
  await post();
  assert.equal(area.value, "");
  area.value = "Anything else?";
  await post();
  const reply = { text: "Hello, Ada.", name: "Mara", key: "key_1" };
  assert.deepEqual(sent, [reply, reply, { text: "Anything else?", name: "Mara", key: "key_2" }]);
});

test("nothing is sent twice while it is on its way, and nothing empty at all", async () => {
  let [sent, arrive] = [0, (): void => undefined];
  const { area, post } = box(() => ((sent += 1), new Promise((resolve) => (arrive = resolve))));
  area.value = "  ";
  await post();
  area.value = "Hi";
  await post();
  await post();
  assert.equal(sent, 1);
  arrive();
});

test("a login that is over is reported once its token is refused, and nothing else ends it", async () => {
  const ended: string[] = [];
  const known: Operator[] = [];
  let status = 200;
  const server = standIn(() => (status === 200 ? json(200, { token: "t", expires_at: "2026-01-05T09:00:00.000Z", actor: { id: "operator" }, scopes: ["read"] }) : problem(status, "unauthorized")));
  const access = createAccess({ fetch: server.fetch, signal: new AbortController().signal, now: () => 0, known: (next) => known.push(next), ended: () => ended.push("ended") });
  assert.equal(await access.tokens.get(), "t");
  assert.equal(await access.tokens.get(), "t");
  assert.deepEqual(known, [{ actor: { id: "operator" }, scopes: ["read"] }]);
  assert.deepEqual(server.seen.map(({ method, path }) => [method, path]), [["POST", "/operator/token"]]);
  access.tokens.drop("t");
  status = 503;
  await assert.rejects(access.tokens.get(), { status: 503 });
  assert.deepEqual(ended, []);
  status = 401;
  await assert.rejects(access.tokens.get(), { status: 401 });
  assert.deepEqual(ended, ["ended"]);
});
