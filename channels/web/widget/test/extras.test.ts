import assert from "node:assert/strict";
import { mock } from "node:test";
import { plain, sentencesEnd } from "../src/extras/announcer.js";
import { testPage, until } from "./page.js";
import { json, problem, sse, standIn } from "./server.js";

const FACE = {
  agent: { id: "agt_1", name: "shop" }, title: "Shop", greeting: "Welcome!", avatar: "🛍️", files: null, overlap: "queue", anonymous: false, build: "tested",
  prompts: [{ label: "Where is it?", prompt: "Where is my order?", icon: "📦" }, { label: "Return", prompt: "I return it", icon: null }],
};
let face: object = FACE;
let build = "tested";
let refuse: (() => Response) | null = null;
let push: (text: string) => void = () => undefined;
let cut: () => void = () => undefined;
const server = standIn(({ path }, signal) => {
  if (path.endsWith("/v1/web/agent")) return json(200, { ...face, build });
  if (path.endsWith("/v1/sessions")) return json(201, { id: "ses_1" });
  if (path.endsWith("/messages")) return refuse ? refuse() : json(202, { message_id: "msg_1", run_id: "run_2", seq: 20 });
  if (!path.includes("/events")) return json(404, { code: "not_found" });
  const body = new ReadableStream({
    start(controller) {
      push = (text) => controller.enqueue(new TextEncoder().encode(text));
      cut = () => controller.error(new TypeError("cut"));
      signal?.addEventListener("abort", () => { try { controller.error(signal.reason); } catch { /* it was cut */ } });
    },
  });
  return new Response(body, { headers: { "Content-Type": "text/event-stream" } });
});
const page = testPage("https://p.example/", server.fetch);
const { window } = page;
const { document, localStorage } = window;
const { ParleyChat } = await import("../src/embed/define.js");
type Chat = InstanceType<typeof ParleyChat>;

function test(name: string, run: () => unknown): void {
  page.test(name, async () => {
    Object.assign(globalThis, { ShadowRoot: window.ShadowRoot });
    localStorage.clear();
    [face, build, refuse, server.seen.length] = [FACE, "tested", null, 0];
    await run();
    document.body.innerHTML = "";
  });
}

/** Return a widget on a page, once its extras are there. */
async function mounted(attributes = ""): Promise<{ chat: Chat; root: ShadowRoot; find: <T extends Element = HTMLElement>(selector: string) => T }> {
  document.body.innerHTML = `<parley-chat token="t" storage-key="k" ${attributes}></parley-chat>`;
  const chat = document.querySelector("parley-chat") as Chat;
  const root = chat.shadowRoot as ShadowRoot;
  await until(() => root.querySelector("[data-announcer]"));
  return { chat, root, find: <T extends Element>(selector: string) => root.querySelector(selector) as T };
}
const texts = (root: ParentNode, selector: string): readonly (string | null)[] => [...root.querySelectorAll(selector)].map((each) => each.textContent);

test("the start screen has the agent's name, greeting, picture and prompts, and a prompt is sent by a click", async () => {
  const { root, find } = await mounted();
  const first = await until(() => find<HTMLButtonElement>(".prompt"));
  assert.deepEqual([find("h2").textContent, find(".greeting p").textContent, texts(root, ".face"), texts(root, ".prompt")], ["Shop", "Welcome!", ["🛍️", "🛍️"], ["📦Where is it?", "Return"]]);
  assert.equal(find("section").getAttribute("aria-label"), "Shop");
  assert.deepEqual([...root.querySelectorAll<HTMLElement>(".prompt")].map(({ title }) => title), ["Where is my order?", "I return it"]);
  first.click();
  await until(() => find(".bubble"));
  assert.equal(find(".bubble").textContent, "Where is my order?");
  assert.equal(find(".prompt"), null, "the start screen gives way to the conversation");
});

test("the page's own words and prompts come before the agent's, and only texts are prompts", async () => {
  const { chat, root, find } = await mounted('heading="Help" greeting="Hi"');
  await until(() => find(".prompt"));
  assert.deepEqual([find("h2").textContent, find(".greeting p").textContent], ["Help", "Hi"]);
  chat.prompts = [{ label: "Mine", prompt: "my own" }, null, { label: 7, prompt: "x" }, { label: "No", prompt: " " }] as never;
  await until(() => texts(root, ".prompt").join() === "Mine");
});

test("answers carry the agent's picture, those of people a letter", async () => {
  localStorage.setItem("k", "ses_1");
  const { root } = await mounted();
  await until(() => server.seen.some(({ path }) => path.includes("/events")));
  await new Promise((resolve) => setTimeout(resolve, 20));
  const parts = [{ type: "text", text: "It is Bo." }];
  push(answering(1, "Hello.") + complete(1, "Hello.") + sse(16, "message.completed", null, { message: "a_2", role: "assistant", parts, stop: "done", actor: { id: "bo", name: "Bo" } }));
  await until(() => root.querySelectorAll(".answer").length === 2);
  assert.deepEqual(texts(root, ".avatar"), ["🛍️", "B"]);
});

test("a picture that cannot be loaded gives way to a letter, and is asked for without a referrer", async () => {
  face = { ...FACE, avatar: "https://pictures.example/a.png" };
  const { find } = await mounted();
  const image = await until(() => find<HTMLImageElement>(".greeting img"));
  assert.deepEqual([image.src, image.getAttribute("referrerpolicy"), image.alt], ["https://pictures.example/a.png", "no-referrer", ""]);
  image.dispatchEvent(new window.Event("error"));
  assert.equal(find(".greeting .face").textContent, "S");
});

test("addresses of other kinds are no pictures", async () => {
  for (const avatar of ["javascript:alert(1)", "http://p.example/a.png", "//p.example/a.png", "data:text/html,<b>"]) {
    face = { ...FACE, avatar };
    const { root, find } = await mounted();
    await until(() => find(".greeting .face")?.textContent);
    assert.equal(root.querySelector("img"), null, avatar);
  }
});

test("a message that was refused comes back into its field, with the reason above it", async () => {
  refuse = () => problem(429, "rate_limited", { "Retry-After": "20" });
  const { chat, root, find } = await mounted();
  chat.send("my long text");
  await until(() => find(".refusal").textContent);
  assert.deepEqual([find(".refusal").textContent, find(".refusal").getAttribute("role")], ["Too many messages. Try again in 20 seconds.", "alert"]);
  assert.deepEqual([find<HTMLTextAreaElement>("textarea").value, texts(root, ".bubble")], ["my long text", []]);
  refuse = null;
  chat.send("again");
  await until(() => find(".refusal").textContent === "");
});

/** The frames of an answer of the run *n*, up to its first text. */
function answering(n: number, text: string): string {
  const run = `run_${n}`;
  const parts = [{ type: "text", text: `q${n}` }];
  return sse(n * 10, "message.received", run, { message: `q_${n}`, parts }) + sse(n * 10 + 1, "run.queued", run, {}) + sse(n * 10 + 2, "run.started", run, { epoch: 1 })
    + sse(n * 10 + 3, "step.started", run, { n: 1, attempt: 1, message: `a_${n}`, takes: [n * 10] })
    + sse(null, "text.delta", run, { message: `a_${n}`, part: 0, epoch: 1, attempt: 1, offset: 0, text });
}
const complete = (n: number, text: string): string =>
  sse(n * 10 + 4, "message.completed", `run_${n}`, { message: `a_${n}`, role: "assistant", parts: [{ type: "text", text }], stop: "done" }) + sse(n * 10 + 5, "run.completed", `run_${n}`, { stop_reason: "end_turn" });

test("whole sentences are announced, once each; what was there before is not, and the transcript itself is silent", async () => {
  localStorage.setItem("k", "ses_1");
  const { chat, find } = await mounted();
  await until(() => push !== undefined && server.seen.some(({ path }) => path.includes("/events")));
  await new Promise((resolve) => setTimeout(resolve, 20));
  push(answering(1, "Old.") + complete(1, "Old answer."));
  await until(() => find(".answer .text"));
  assert.equal(find('[role="log"]').getAttribute("aria-live"), "off");
  chat.send("q2"); // what comes from here on is new
  const said = (): string => find("[data-announcer]").textContent;
  await until(() => find('[data-tag="sending"], [data-tag="queued"], .question'));
  await new Promise((resolve) => setTimeout(resolve, 50));
  push(answering(2, "It **left** on Friday. It arr"));
  await until(said);
  assert.equal(said(), "Assistant: It left on Friday.");
  push(complete(2, "It **left** on Friday. It arrives tomorrow."));
  await until(() => said().includes("arrives"));
  assert.equal(said(), "Assistant: It left on Friday.It arrives tomorrow.");
});

test("sentences end where the language ends them, and a block of code is one", () => {
  assert.equal(sentencesEnd("One. Two", 0, "en"), 5);
  assert.equal(sentencesEnd("これは文です。次", 0, "ja"), 7);
  assert.equal(sentencesEnd("Look:\n```js\na. b. c.\n", 0, "en"), 0);
  assert.equal(plain("## Title\n- [x] **done** and [a link](https://a.example)\n```js\ncode()\n```\n| a | b |\n|---|---|\n| 1 | 2 |", "Code block."), "Title done and a link Code block. a, b 1, 2");
  assert.equal(plain("2 * 3 * 4 and snake_case_name", "x"), "2 * 3 * 4 and snake_case_name");
});

test("a server with a newer widget is noticed after a reconnect: an event, then a quiet line; never where a version is pinned", async () => {
  localStorage.setItem("k", "ses_1");
  const { chat, find } = await mounted();
  await until(() => server.seen.some(({ path }) => path.includes("/events")));
  const seen: unknown[] = [];
  chat.addEventListener("parley:update", (event) => seen.push((event as CustomEvent).detail));
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(find(".update"), null);
  build = "newer";
  cut();
  await until(() => find(".update"));
  assert.deepEqual([find(".update").textContent, seen], ["A newer version of this chat is ready.Reload", [{ build: "newer" }]]);
});

test("a copy that was another version from the start says nothing of it", async () => {
  build = "other";
  localStorage.setItem("k", "ses_1");
  const { find } = await mounted();
  await until(() => server.seen.some(({ path }) => path.includes("/events")));
  build = "newer";
  await new Promise((resolve) => setTimeout(resolve, 20));
  const before = server.seen.length;
  cut();
  await until(() => server.seen.slice(before).some(({ path }) => path.endsWith("/v1/web/agent")));
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(find(".update"), null);
});

test("with leave to do so an idle page reloads itself, never while something is typed or an answer is written", async () => {
  const { createUpdate } = await import("../src/extras/update.js");
  mock.timers.enable({ apis: ["Date", "setInterval"], now: 1_000 });
  let reloads = 0;
  Object.defineProperty(globalThis, "location", { value: { reload: () => (reloads += 1) }, configurable: true, writable: true });
  document.body.innerHTML = '<div id="host" update="reload"></div>';
  const root = (document.querySelector("#host") as Element).attachShadow({ mode: "open" });
  root.innerHTML = '<section><div class="banner"></div></section>';
  const node = root.firstElementChild as HTMLElement;
  let typed = true;
  const life = new AbortController();
  const update = createUpdate({ node, build: "b1", isTyped: () => typed, signal: life.signal } as never, { update: "Newer", reload: "Reload" } as never, () => undefined);
  const shown = (now: string, status = "completed"): unknown => ({ agent: { build: now }, outbox: [], link: "open", view: { runs: [{ status }] } });
  update(shown("b1") as never);
  update(shown("b2") as never);
  mock.timers.tick(120_000);
  assert.equal(reloads, 0, "something is typed");
  typed = false;
  update(shown("b2", "running") as never);
  mock.timers.tick(120_000);
  assert.equal(reloads, 0, "an answer is written");
  update(shown("b2") as never);
  window.dispatchEvent(new window.Event("keydown"));
  mock.timers.tick(50_000);
  assert.equal(reloads, 0, "the page was used");
  mock.timers.tick(20_000);
  assert.equal(reloads, 1);
  mock.timers.tick(120_000);
  assert.equal(reloads, 1);
  life.abort();
  mock.timers.reset();
});
