import assert from "node:assert/strict";
import { json, problem, sse, standIn, stream } from "./server.js";
import { testPage, until } from "./page.js";

let open = 0;
const server = standIn(({ path }, signal) => {
  if (path.endsWith("/v1/web/agent")) return problem(404, "not_found");
  if (path.endsWith("/v1/sessions")) return json(201, { id: "ses_1" });
  if (path.endsWith("/messages")) return json(202, { message_id: "msg_1", run_id: "run_1", seq: 2 });
  if (path.endsWith("/feedback")) return json(200, { items: [] });
  open += 1;
  signal?.addEventListener("abort", () => (open -= 1));
  const parts = [{ type: "text", text: "<b>Hi</b>" }];
  return stream(sse(1, "session.opened", null, {}) + sse(2, "message.received", "run_1", { message: "msg_1", parts }) + sse(3, "run.queued", "run_1", {}), signal);
});
const page = testPage("https://p.example/", server.fetch);
const { window, test } = page;
const { document, localStorage } = window;
const { ParleyChat } = await import("../src/embed/define.js");

const wait = (milliseconds = 60): Promise<void> => new Promise((resolve) => setTimeout(resolve, milliseconds));

function mount(html = '<parley-chat token="t" heading="Help desk" storage-key="k"></parley-chat>'): InstanceType<typeof ParleyChat> {
  document.body.innerHTML = html;
  return document.querySelector("parley-chat") as InstanceType<typeof ParleyChat>;
}

function write(chat: Element, text: string): void {
  const area = chat.shadowRoot?.querySelector("textarea") as HTMLTextAreaElement;
  area.value = text;
  area.dispatchEvent(new window.KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true }));
}

test("the widget has the roles and names that assistive technology reads", () => {
  const root = mount().shadowRoot as ShadowRoot;
  assert.equal(root.querySelector("section")?.getAttribute("aria-label"), "Help desk");
  const log = root.querySelector('[role="log"]');
  assert.deepEqual([log?.getAttribute("aria-live"), log?.getAttribute("aria-label")], ["polite", "Conversation"]);
  assert.equal(root.querySelector("textarea")?.getAttribute("aria-label"), "Your message");
  assert.ok(root.querySelector('[role="status"]'));
  for (const button of root.querySelectorAll("button")) assert.ok(button.getAttribute("aria-label") ?? button.textContent, button.outerHTML);
});

test("a message is sent, shown as text, and can be stopped; removal ends the connection", async () => {
  const chat = mount();
  write(chat, "<b>Hi</b>");
  const root = chat.shadowRoot as ShadowRoot;
  await until(() => root.querySelector(".bubble")?.textContent && open);
  assert.deepEqual([...root.querySelectorAll(".bubble")].map((each) => each.textContent), ["<b>Hi</b>"]);
  assert.equal((root.querySelector(".stop") as HTMLElement).hidden, false);
  assert.equal(open, 1);
  root.querySelector("textarea")?.dispatchEvent(new window.KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
  await wait();
  assert.ok(server.seen.some(({ path }) => path === "/v1/runs/run_1/cancel"));
  chat.remove();
  await wait();
  assert.deepEqual([open, root.childElementCount], [0, 0]);
  localStorage.clear();
});

test("a move within the page ends nothing, and ten mounts leave no connection open", async () => {
  localStorage.setItem("k", "ses_1");
  const chat = mount();
  const first = chat.shadowRoot?.firstChild;
  document.body.append(document.createElement("main"));
  document.querySelector("main")?.append(chat);
  await wait();
  assert.equal(chat.shadowRoot?.firstChild, first);
  assert.equal(open, 1);
  for (let n = 0; n < 10; n += 1) {
    mount();
    await wait(5);
  }
  document.body.innerHTML = "";
  await wait();
  assert.equal(open, 0);
  localStorage.clear();
});

test("what was set before the element was defined is honoured", async () => {
  const name = "parley-chat-late";
  const early = document.createElement(name) as unknown as { getToken: () => Promise<string> } & HTMLElement;
  early.getToken = async () => "late_token";
  early.setAttribute("placeholder", "Say it");
  document.body.append(early);
  customElements.define(name, class extends ParleyChat {});
  write(early, "hello");
  await wait();
  assert.equal(early.shadowRoot?.querySelector("textarea")?.placeholder, "Say it");
  assert.equal(server.seen.findLast(({ path }) => path.endsWith("/messages"))?.headers.get("Authorization"), "Bearer late_token");
  early.remove();
  localStorage.clear();
});

test("several attributes that change at once cost one restart, and words cost none", async () => {
  const chat = mount();
  const first = chat.shadowRoot?.firstChild;
  chat.setAttribute("heading", "Other");
  await wait(5);
  assert.equal(chat.shadowRoot?.firstChild, first);
  assert.equal(chat.shadowRoot?.querySelector("h2")?.textContent, "Other");
  chat.setAttribute("agent", "other");
  chat.setAttribute("server", "https://q.example/");
  await wait(5);
  assert.notEqual(chat.shadowRoot?.firstChild, first);
  chat.remove();
});
