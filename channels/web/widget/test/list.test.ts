import assert from "node:assert/strict";
import { test } from "node:test";
import { JSDOM } from "jsdom";
import type { Actions, Conversation } from "../src/talk/conversation.js";
import { json } from "./server.js";

const { window } = new JSDOM("<!doctype html><body></body>", { url: "https://site.example/help?page=1#top" });
const NAMES = ["AbortController", "AbortSignal", "document", "HTMLElement", "location", "Node", "Event", "KeyboardEvent", "ShadowRoot", "addEventListener"] as const;
/** Be on this page: other files of tests have theirs. */
function enter(): void {
  for (const name of NAMES) Object.defineProperty(globalThis, name, { value: window[name as "document"], configurable: true, writable: true });
}
enter();
const { createFinder } = await import("../src/list/finder.js");
const { linkedIn, linkTo, openLinked } = await import("../src/list/links.js");
const { openPanel } = await import("../src/list/panel.js");
const { FRESH } = await import("../src/talk/conversation.js");
const { LIST } = await import("../src/list/words.js");
const { STRINGS } = await import("../src/words/strings.js");

const item = (id: string, title: string | null = id, newest_seq = 5) => ({ id, title, status: "idle", created_at: "2026-01-05T09:00:00.000Z", last_activity_at: "2026-01-05T09:00:00.000Z", newest_seq });
const settled = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 5));

interface Setting {
  readonly node: () => HTMLElement | null;
  readonly did: string[];
  readonly paths: string[];
  readonly opener: HTMLElement;
  readonly beneath: HTMLElement;
  readonly button: (label: string) => HTMLElement;
  readonly titles: () => (string | null)[];
  readonly note: () => string;
  readonly active: () => Element | null;
}

interface Given {
  readonly answer?: (path: string) => Response | Promise<Response>;
  readonly done?: boolean;
  readonly links?: boolean;
  readonly now?: Partial<Conversation>;
}

function panel({ answer = () => json(200, { items: [item("ses_1"), item("ses_2", "Kettle", 9)], next_cursor: null }), done = true, links = false, now = {} }: Given = {}): Setting {
  enter();
  const host = document.createElement("div");
  document.body.replaceChildren(host);
  const root = host.attachShadow({ mode: "open" });
  const [frame, opener, beneath] = [document.createElement("section"), document.createElement("button"), document.createElement("div")];
  beneath.append(opener);
  frame.append(beneath);
  root.append(frame);
  const [did, paths] = [[] as string[], [] as string[]];
  const note = (name: string) => async (...given: unknown[]) => (did.push([name, ...given].join(" ")), done);
  const read = (id: string): number | undefined => ({ ses_1: 5, ses_2: 4 })[id];
  const actions = { open: note("open"), rename: note("rename"), remove: note("remove"), renew: () => did.push("renew"), dismiss: () => did.push("dismiss"), read } as unknown as Actions;
  const options = {
    frame, opener, actions, strings: STRINGS, now: () => ({ ...FRESH, session: "ses_1", ...now }),
    request: async (path: string) => (paths.push(path), answer(path)),
    focus: () => did.push("focus"), signal: new AbortController().signal, link: links ? linkTo : undefined,
  };
  openPanel(options, LIST);
  const node = (): HTMLElement | null => frame.querySelector("[role=dialog]");
  return {
    node, did, paths, opener, beneath,
    button: (label) => [...frame.querySelectorAll<HTMLElement>("button")].find((each) => each.textContent === label || each.getAttribute("aria-label") === label) as HTMLElement,
    titles: () => [...frame.querySelectorAll(".talk-title")].map((each) => each.textContent),
    note: () => frame.querySelector(".talks-note")?.textContent ?? "",
    active: () => root.activeElement,
  };
}

const press = (node: Element | null, key: string, more: object = {}): void =>
  void node?.dispatchEvent(new window.KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more }));

test("the list has titles, the open one, and what is unread; what is beneath cannot be reached", async () => {
  const { node, titles, beneath, active } = panel();
  await settled();
  assert.deepEqual(titles(), ["ses_1", "Kettle"]);
  const [one, other] = [...(node()?.querySelectorAll("li") ?? [])];
  assert.equal(one?.querySelector("[aria-current=true] .talk-mark")?.textContent, LIST.current);
  assert.deepEqual([other?.hasAttribute("data-unread"), other?.querySelector(".talk-mark")?.textContent], [true, LIST.unread]);
  assert.equal(beneath.inert, true);
  assert.equal((active() as HTMLInputElement).type, "search");
});

test("Escape closes the panel and nothing else, and the focus returns", async () => {
  const { node, opener, beneath, active } = panel();
  await settled();
  let outside = 0;
  node()?.parentElement?.addEventListener("keydown", () => (outside += 1));
  press(active(), "Escape");
  assert.deepEqual([node(), beneath.inert, active(), outside, opener.getAttribute("aria-expanded")], [null, false, opener, 0, "false"]);
});

test("the focus stays inside, from the last to the first and back", async () => {
  const { node, active } = panel();
  await settled();
  const all = [...(node()?.querySelectorAll<HTMLElement>("button, input") ?? [])].filter((each) => !each.hidden);
  all.at(-1)?.focus();
  press(active(), "Tab");
  assert.equal(active()?.outerHTML, all[0]?.outerHTML);
  press(active(), "Tab", { shiftKey: true });
  assert.equal(active(), all.at(-1));
});

test("a click opens a conversation and closes the panel; where that fails the reason is in the panel", async () => {
  const made = panel();
  await settled();
  made.node()?.querySelectorAll<HTMLElement>(".talk-open")[1]?.click();
  await settled();
  assert.deepEqual([made.did, made.node()], [["open ses_2", "focus"], null]);
  const failing = panel({ done: false, now: { problem: Object.assign(new Error("x"), { status: 404, code: "not_found", retryAfter: null, errors: [] }) } });
  await settled();
  failing.node()?.querySelectorAll<HTMLElement>(".talk-open")[1]?.click();
  await settled();
  assert.deepEqual([failing.did, failing.note()], [["open ses_2", "dismiss"], STRINGS.problems["not_found"]]);
});

test("a title is changed in its place, by keyboard", async () => {
  const made = panel();
  await settled();
  made.button("Options for Kettle").click();
  assert.equal(made.active()?.textContent, LIST.rename);
  made.button(LIST.rename).click();
  const field = made.active() as HTMLInputElement;
  assert.equal(field.value, "Kettle");
  field.value = " Old kettle ";
  field.form?.dispatchEvent(new window.Event("submit", { bubbles: true, cancelable: true }));
  await settled();
  assert.deepEqual(made.did, ["rename ses_2 Old kettle"]);
  assert.equal(made.paths.length, 2, "the list is read again");
  assert.equal(made.active(), made.button("Options for Kettle"));
  made.button("Options for Kettle").click();
  press(made.active(), "Escape");
  assert.ok(made.node(), "Escape closes the choices first");
});

test("a conversation is deleted after one question, and the focus goes to the next", async () => {
  const made = panel();
  await settled();
  made.button("Options for ses_1").click();
  made.button(LIST.remove).click();
  assert.deepEqual([made.active()?.textContent, made.did], [LIST.keep, []]);
  made.button(LIST.remove).click();
  await settled();
  assert.deepEqual([made.did, made.titles()], [["remove ses_1"], ["Kettle"]]);
  assert.equal(made.active()?.textContent?.startsWith("Kettle"), true);
});

test("a link is offered where the page has links, and names the conversation in this page's address", async () => {
  const plain = panel();
  await settled();
  plain.button("Options for Kettle").click();
  assert.equal(plain.button(LIST.link), undefined);
  const written: string[] = [];
  Object.defineProperty(globalThis, "navigator", { value: { clipboard: { writeText: async (text: string) => void written.push(text) } }, configurable: true });
  const made = panel({ links: true });
  await settled();
  made.button("Options for Kettle").click();
  made.button(LIST.link).click();
  await settled();
  assert.deepEqual(written, ["https://site.example/help?page=1#parley=ses_2"]);
  assert.ok(made.button(LIST.copied));
  assert.deepEqual([linkedIn("#parley=ses_2"), linkedIn("#top"), linkedIn("")], ["ses_2", null, null]);
});

test("a page with links opens the one of its address, now and when that changes; another page what it is given", () => {
  enter();
  const opened: string[] = [];
  const actions = { open: async (id: string) => opened.push(id) > 0 } as unknown as Actions;
  openLinked(actions, "ses_given", false, new AbortController().signal);
  location.hash = "#parley=ses_there";
  openLinked(actions, "ses_given", true, new AbortController().signal);
  location.hash = "#parley=ses_other";
  window.dispatchEvent(new window.Event("hashchange"));
  assert.deepEqual(opened, ["ses_given", "ses_there", "ses_other"]);
});

test("what is typed while an answer is on its way is looked for next, and only the last of it", async () => {
  const waiting: ((response: Response) => void)[] = [];
  const paths: string[] = [];
  const seen: string[][] = [];
  const request = (path: string): Promise<Response> => (paths.push(path), new Promise((resolve) => waiting.push(resolve)));
  const finder = createFinder(request, ({ items }) => void seen.push(items.map(({ id }) => id)), new AbortController().signal);
  finder.find("");
  for (const words of ["k", "ke", "kettle"]) finder.find(words);
  assert.deepEqual(paths, ["/v1/web/conversations?limit=30"]);
  waiting.shift()?.(json(200, { items: [item("ses_1")], next_cursor: null }));
  await settled();
  assert.deepEqual(paths.slice(1), ["/v1/web/conversations?limit=30&q=kettle"]);
  waiting.shift()?.(json(200, { items: [item("ses_2")], next_cursor: null }));
  await settled();
  assert.deepEqual([seen.at(-1), seen.some((each) => each.includes("ses_1"))], [["ses_2"], false]);
});

test("a search that finds nothing at first goes on, older ones are added, and what failed is said", async () => {
  const pages: Record<string, [string[], string | null]> = { "": [[], "2"], "2": [["ses_2"], "3"], "3": [["ses_3", "ses_2"], null] };
  const made = panel({
    answer: (path) => {
      const [ids, next_cursor] = pages[new URL(path, "https://x").searchParams.get("cursor") ?? ""] ?? [[], null];
      return json(200, { items: ids.map((id) => item(id)), next_cursor });
    },
  });
  await settled();
  assert.deepEqual([made.titles(), made.paths.length], [["ses_2"], 2]);
  made.button(LIST.more).click();
  await settled();
  assert.deepEqual([made.titles(), made.button(LIST.more).hidden], [["ses_2", "ses_3"], true]);
  const failing = panel({ answer: async () => Promise.reject(Object.assign(new Error("no"), { status: 404, code: "not_found", retryAfter: null, errors: [] })) });
  await settled();
  assert.equal(failing.note(), STRINGS.problems["not_found"]);
  const none = panel({ answer: () => json(200, { items: [], next_cursor: null }) });
  await settled();
  assert.equal(none.note(), LIST.none);
});

test("titles are text, whatever they hold", async () => {
  const made = panel({ answer: () => json(200, { items: [item("ses_1", "<img src=x onerror=alert(1)>$&"), item("ses_2", null)], next_cursor: null }) });
  await settled();
  assert.deepEqual(made.titles(), ["<img src=x onerror=alert(1)>$&", LIST.untitled]);
  assert.equal(made.node()?.querySelector("img"), null);
  assert.ok(made.button("Options for <img src=x onerror=alert(1)>$&"));
});
