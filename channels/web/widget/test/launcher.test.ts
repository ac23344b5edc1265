import assert from "node:assert/strict";
import { testPage, until } from "./page.js";
import { json, sse, standIn, stream } from "./server.js";

const server = standIn(({ path }, signal) => {
  if (path.endsWith("/v1/sessions")) return json(201, { id: "ses_1" });
  if (path.endsWith("/messages")) return json(202, { message_id: "msg_1", run_id: "run_1", seq: 2 });
  if (path.includes("/events")) return stream(sse(1, "session.opened", null, {}), signal);
  return json(404, { code: "not_found" });
});
const page = testPage("https://p.example/", server.fetch);
const { document, localStorage } = page.window;
const { ParleyChat } = await import("../src/embed/define.js");
type Chat = InstanceType<typeof ParleyChat>;

function test(name: string, run: () => unknown): void {
  page.test(name, async () => {
    page.phone(false);
    localStorage.clear();
    server.seen.length = 0;
    await run();
    document.body.innerHTML = "";
  });
}

interface Opened {
  readonly chat: Chat;
  readonly root: ShadowRoot;
  readonly bubble: HTMLButtonElement;
  readonly panel: HTMLDialogElement;
}

/** Return a launcher on a page that has a field of its own. */
async function mounted(attributes = ""): Promise<Opened> {
  document.body.innerHTML = `<input><parley-chat launcher token="t" storage-key="k" heading="Help desk" ${attributes}></parley-chat>`;
  const chat = document.querySelector("parley-chat") as Chat;
  const root = chat.shadowRoot as ShadowRoot;
  const bubble = await until(() => root.querySelector<HTMLButtonElement>(".bubble-button"));
  return { chat, root, bubble, panel: root.querySelector("dialog") as HTMLDialogElement };
}
const press = (target: Element, key: string): boolean =>
  target.dispatchEvent(new page.window.KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, composed: true }));

test("a launcher asks for nothing and shows nothing before it is opened", async () => {
  const { chat, root, bubble, panel } = await mounted();
  assert.deepEqual(server.seen, []);
  assert.deepEqual([chat.isOpen, panel.open, root.querySelector("textarea")], [false, false, null]);
  assert.deepEqual([bubble.getAttribute("aria-expanded"), bubble.getAttribute("aria-label")], ["false", "Open the conversation"]);
});

test("with a conversation that the browser remembers it is read at once, for what is unread", async () => {
  localStorage.setItem("k", "ses_1");
  await mounted();
  await until(() => server.seen.some(({ path }) => path.includes("/events")));
});

test("the bubble opens and closes, and the focus goes in and comes back", async () => {
  const { chat, root, bubble, panel } = await mounted();
  bubble.focus();
  bubble.click();
  assert.deepEqual([chat.isOpen, panel.open, bubble.getAttribute("aria-expanded")], [true, true, "true"]);
  assert.equal(panel.getAttribute("aria-label"), "Help desk");
  assert.equal(root.activeElement, root.querySelector("textarea"));
  root.querySelector<HTMLButtonElement>(".close")?.click();
  assert.deepEqual([chat.isOpen, panel.open, root.activeElement], [false, false, bubble]);
});

test("the focus returns to what on the page opened it", async () => {
  const { chat, root } = await mounted();
  const field = document.querySelector("input") as HTMLInputElement;
  field.focus();
  chat.open();
  assert.equal(document.activeElement, chat);
  press(root.querySelector("textarea") as Element, "Escape");
  assert.deepEqual([chat.isOpen, document.activeElement], [false, field]);
});

test("Escape closes, but not while an answer is written, and not when something inside took the key", async () => {
  const { chat, root, panel } = await mounted("open");
  const area = await until(() => root.querySelector("textarea"));
  area.addEventListener("keydown", (event) => event.preventDefault(), { once: true });
  press(area, "Escape");
  assert.equal(chat.isOpen, true);
  press(area, "Escape");
  assert.deepEqual([chat.isOpen, panel.open], [false, false]);
});

test("it is modal on phones only, also when the page becomes one", async () => {
  const { chat, panel } = await mounted();
  chat.open();
  assert.equal(panel.hasAttribute("data-modal"), false);
  page.phone(true);
  assert.deepEqual([panel.open, panel.hasAttribute("data-modal")], [true, true]);
  chat.close();
  assert.equal(panel.open, false);
  chat.toggle();
  assert.equal(panel.hasAttribute("data-modal"), true);
});

test("a page may keep it closed, and reads of what it does", async () => {
  const { chat, panel } = await mounted();
  const seen: string[] = [];
  for (const name of ["parley:open", "parley:close"]) chat.addEventListener(name, () => seen.push(name));
  chat.addEventListener("parley:open", (event) => event.preventDefault(), { once: true });
  chat.open();
  assert.equal(panel.open, false);
  chat.open();
  chat.open();
  chat.close();
  assert.deepEqual(seen, ["parley:open", "parley:open", "parley:close"]);
});
