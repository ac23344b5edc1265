import assert from "node:assert/strict";
import { happened } from "../src/host/observe.js";
import { reduce } from "../src/log/reduce.js";
import { EMPTY } from "../src/log/state.js";
import { FRESH, type Conversation } from "../src/talk/conversation.js";
import { toFrame } from "../src/wire/client.js";
import { testPage, until } from "./page.js";
import { json, sse, standIn, stream } from "./server.js";

const ANSWERED = { message: "msg_2", role: "assistant", parts: [{ type: "text", text: "Hello!" }], stop: "done" };
let log = "";
const server = standIn(({ path }, signal) => {
  if (path.includes("/v1/web/")) return json(404, { code: "not_found" }); // asked at once, before the page does anything
  if (path.endsWith("/v1/sessions")) return json(201, { id: "ses_1" });
  if (path.endsWith("/messages")) return json(202, { message_id: "msg_1", run_id: "run_1", seq: 2 });
  if (!path.includes("/events")) return json(404, { code: "not_found" });
  const answer = stream(log, signal);
  answer.headers.set("Parley-Time", "2026-01-05T09:00:00.000Z");
  return answer;
});
const page = testPage("https://p.example/", server.fetch);
const { document } = page.window;
const early: string[] = [];
const broken = (): never => {
  throw new Error("the page's own fault");
};
Object.assign(page.window, { parley: [broken, null, ["support:open"], ["on", "ready", () => early.push("ready")], ["send", "From the page"], ["on", "error", () => undefined]] });
document.body.innerHTML = '<parley-chat token="t" storage-key="k"></parley-chat>';
type Chat = import("../src/embed/define.js").ParleyChat;

function test(name: string, run: () => unknown): void {
  page.test(name, async () => {
    page.window.localStorage.clear();
    server.seen.length = 0;
    log = sse(1, "session.opened", null, {});
    await run();
    document.body.innerHTML = ""; // what stays would go on asking
  });
}

function mount(attributes = ""): Chat {
  document.body.innerHTML = `<parley-chat token="t" storage-key="k" ${attributes}></parley-chat>`;
  return document.querySelector("parley-chat") as Chat;
}
const posted = (): unknown[] => server.seen.filter(({ path }) => path.endsWith("/messages")).map(({ body }) => (body as { text: string }).text);
/** Note what *chat* raises, by name. */
function noted(chat: Chat, ...names: string[]): [string, unknown][] {
  const found: [string, unknown][] = [];
  for (const name of names) chat.addEventListener(name, (event) => found.push([name, (event as CustomEvent<unknown>).detail]));
  return found;
}

test("what the page asked for before the script was there is done once its element is", async () => {
  const logged: unknown[] = [];
  const { error } = console;
  console.error = (each: Error) => logged.push(each.message);
  const { ParleyChat } = await import("../src/embed/define.js");
  assert.ok(document.querySelector("parley-chat") instanceof ParleyChat);
  await until(() => posted().length).finally(() => (console.error = error));
  assert.deepEqual([posted(), early], [["From the page"], ["ready"]]);
  assert.equal(logged.filter((each) => each === "the page's own fault").length, 1, "it costs nothing that comes after it");
  document.body.innerHTML = '<parley-chat id="support" hidden token="t"></parley-chat>';
  const support = document.querySelector("parley-chat") as Chat;
  await until(() => support.isOpen);
  (window.parley as { push(...given: unknown[]): void }).push((chat: Chat) => chat.close(), ["on", "open", (event: Event) => event.preventDefault()]);
  await until(() => !support.isOpen);
  support.open();
  assert.equal(support.isOpen, false, "the page has cancelled it");
});

test("a person's message is reported before it is sent, and a page may keep it", async () => {
  const chat = mount();
  chat.addEventListener("parley:message", (event) => event.detail.text.includes("password") && event.preventDefault());
  const seen = noted(chat, "parley:message");
  chat.send("My password is 1234");
  chat.send("Hello");
  chat.send("  ");
  await until(() => posted().length);
  assert.deepEqual(posted(), ["Hello"]);
  assert.deepEqual(seen.map(([, detail]) => detail), [{ role: "user", text: "My password is 1234" }, { role: "user", text: "Hello" }]);
});

test("an answer is reported when it is complete, and none that was there when the page came", async () => {
  const old = sse(1, "session.opened", null, {}) + sse(2, "message.completed", "run_1", { ...ANSWERED, message: "msg_old" });
  log = old.replaceAll("09:00:00", "08:00:00") + sse(3, "message.completed", "run_2", ANSWERED);
  page.window.localStorage.setItem("k", "ses_1");
  const seen = noted(mount(), "parley:message", "parley:ready");
  await until(() => seen.some(([name]) => name === "parley:message"));
  assert.deepEqual(seen, [["parley:ready", null], ["parley:message", { role: "assistant", text: "Hello!", id: "msg_2" }]]);
});

test("what the page says goes with the next message, once after each change", async () => {
  const chat = mount();
  const contexts = (): unknown[] => server.seen.filter(({ path }) => path.endsWith("/messages")).map(({ body }) => (body as { context?: string }).context);
  chat.setContext({ page: "/lamps", basket: 2 });
  chat.send("One");
  await until(() => posted().length === 1);
  chat.send("Two");
  await until(() => posted().length === 2);
  chat.setContext("They look at chairs.");
  chat.send("Three");
  await until(() => posted().length === 3);
  chat.setContext(null);
  chat.send("Four");
  await until(() => posted().length === 4);
  assert.deepEqual(contexts(), ['{"page":"/lamps","basket":2}', undefined, "They look at chairs.", undefined]);
  assert.throws(() => chat.setContext("x".repeat(2_001)), /at most 2000 characters, and these are 2001/);
});

test("a token is changed without an end to the conversation", async () => {
  const chat = mount();
  const first = chat.shadowRoot?.firstChild;
  chat.setToken("second");
  chat.send("Hello");
  await until(() => posted().length);
  const sent = server.seen.filter(({ method }) => method === "POST").map(({ headers }) => headers.get("Authorization"));
  assert.ok(sent.length && sent.every((each) => each === "Bearer second"), String(sent));
  assert.equal(chat.shadowRoot?.firstChild, first);
});

test("properties are attributes", () => {
  const chat = mount();
  chat.tokenUrl = "/token";
  chat.launcher = true;
  chat.agent = "sales";
  assert.equal(chat.outerHTML, '<parley-chat token="t" storage-key="k" token-url="/token" launcher="" agent="sales"></parley-chat>');
  chat.agent = null;
  chat.launcher = false;
  assert.deepEqual([chat.getAttribute("agent"), chat.launcher, chat.server], [null, false, null]);
});

test("on a public page its developer finds the reason on the console, and the visitor no notice", async (): Promise<void> => {
  const warned: string[] = [];
  const { warn } = console;
  console.warn = (text: string) => warned.push(text);
  document.body.innerHTML = '<parley-chat token-url="/parley-token" storage-key="k"></parley-chat>';
  const chat = document.querySelector("parley-chat") as Chat;
  chat.send("Hello");
  await until(() => warned.length).finally(() => (console.warn = warn));
  assert.match(warned[0] ?? "", /The token route \/parley-token is not there: 404.*token_missing/s);
  assert.equal(chat.shadowRoot?.querySelector(".notice"), null);
});

test("a page under development asks its token route once: the second answer could be another visitor's", async (): Promise<void> => {
  const asked: string[] = [];
  const { fetch: real } = globalThis;
  globalThis.fetch = (async (input: RequestInfo | URL) => {
    asked.push(String(input));
    if (String(input) === "/own-token") return Response.json({ token: "tok", expires_at: "2999-01-01T00:00:00.000Z" });
    return Response.json({ agent: { id: "agt_1", name: "sales" }, build: "b" });
  }) as typeof fetch;
  document.body.innerHTML = '<parley-chat token-url="/own-token" storage-key="k" debug></parley-chat>';
  const diagnosed = (): boolean => asked.filter((each) => each.endsWith("/v1/web/agent")).length > 1; // the face's, and the diagnosis'
  await until(diagnosed).finally(() => (globalThis.fetch = real));
  assert.deepEqual(asked.filter((each) => each === "/own-token").length, 1);
});

test("what happens to a call and to the question about it is reported once each", () => {
  const call = { call: "call_1", name: "refund", arguments: {}, message: "msg_1" };
  const approval = { approval: "apr_1", call: "call_1", tool: "refund", title: "Refund 5 EUR", arguments: {}, responders: ["asker"], quorum: 1, timeout_s: 300 };
  const events: [string, object][] = [
    ["tool.requested", call],
    ["approval.requested", approval],
    ["tool.pending", { call: "call_1", on: "approval" }],
    ["approval.decided", { approval: "apr_1", call: "call_1", status: "approved" }],
    ["tool.started", { call: "call_1" }],
    ["tool.completed", { call: "call_1", outcome: "done", parts: [] }],
  ];
  let now: Conversation = FRESH;
  const seen = events.flatMap(([type, data], n) => {
    const frame = toFrame({ id: String(n + 1), type, data: JSON.stringify({ ...data, run: "run_1", session: "ses_1", time: "2026-01-05T09:00:00.000Z" }) });
    const next = { ...now, view: reduce(now.view, frame) };
    const found = happened(now, next, 0);
    now = next;
    return found.map(([name, detail]) => [name, (detail as { status?: string } | null)?.status]);
  });
  assert.deepEqual(seen.filter(([name]) => name === "parley:tool").map(([, status]) => status), ["requested", "waiting", "running", "done"]);
  assert.deepEqual(seen.filter(([name]) => name === "parley:approval").map(([, status]) => status), ["open", "approved"]);
  assert.deepEqual(happened(FRESH, now, 100), [], "nothing of what was there before");
});

test("what went wrong is reported once, and how much is unread when that changes", () => {
  const problem = Object.assign(new Error("No."), { status: 403, code: "forbidden", retryAfter: null, errors: [] });
  const failed = { ...FRESH, problem, unread: 2 };
  assert.deepEqual(happened(FRESH, failed, 0), [
    ["parley:error", { code: "forbidden", status: 403, message: "No." }],
    ["parley:unread", { count: 2 }],
  ]);
  assert.deepEqual(happened(failed, { ...failed, view: { ...EMPTY } }, 0), []);
  const rated = (sending: boolean) => ({ ...FRESH, feedback: { run_1: { rating: "down" as const, comment: "Wrong", sending } } });
  assert.deepEqual(happened(FRESH, rated(true), 0), [], "not before the server has it");
  assert.deepEqual(happened(rated(true), rated(false), 0), [["parley:feedback", { run: "run_1", rating: "down", comment: "Wrong" }]]);
});

test("a token that comes while an older one is refused stays, and brings back what that one could not read", async () => {
  const { fetch: before } = globalThis;
  const waiting: (() => void)[] = [];
  let good = "";
  const slow = standIn(async ({ path, headers }, signal) => {
    const token = headers.get("Authorization");
    if (token === "Bearer T1") await new Promise<void>((resolve) => waiting.push(resolve));
    if (token !== good) return json(401, { code: "unauthorized" });
    if (path.endsWith("/web/agent")) return json(200, { title: "Shop", prompts: [], files: null, greeting: "Welcome back", avatar: null });
    return path.includes("/events") ? stream(log, signal) : json(404, { code: "not_found" });
  });
  Object.assign(globalThis, { fetch: slow.fetch });
  try {
    page.window.localStorage.setItem("k", "ses_1");
    const chat = document.createElement("parley-chat");
    for (const [name, value] of [["token", ""], ["storage-key", "k"]] as const) chat.setAttribute(name, value);
    document.body.replaceChildren(chat);
    const retry = (): unknown => chat.shadowRoot?.querySelector("[data-reconnect]");
    assert.equal(slow.seen.length, 0, "nothing is asked before the first token");
    chat.setToken("T0");
    await until(retry);
    chat.setToken("T1");
    await until(() => waiting.length === 2);
    good = "Bearer T2";
    chat.setToken("T2");
    for (const refuse of waiting) refuse();
    await until(() => !retry() && slow.seen.some(({ path, headers }) => path.includes("/events") && headers.get("Authorization") === good));
    chat.newConversation();
    await until(() => chat.shadowRoot?.textContent?.includes("Welcome back"));
    chat.send("Still T2?");
    const sent = await until(() => slow.seen.find(({ method }) => method === "POST"));
    assert.equal(sent.headers.get("Authorization"), "Bearer T2");
  } finally {
    Object.assign(globalThis, { fetch: before });
  }
});
