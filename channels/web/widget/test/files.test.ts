import assert from "node:assert/strict";
import { test } from "node:test";
import { JSDOM } from "jsdom";
import { createAttachments } from "../src/files/attachments.js";
import { createTray, type Tray } from "../src/files/trayview.js";
import { sizeOf } from "../src/files/size.js";
import { createComposer, type Composer } from "../src/frame/composer.js";
import { createView } from "../src/frame/view.js";
import { FRESH, type Actions } from "../src/talk/conversation.js";
import type { AgentFace } from "../src/talk/face.js";
import { unshown, type Outgoing } from "../src/talk/outbox.js";
import { EMPTY, type Message } from "../src/log/state.js";
import { createClient } from "../src/wire/client.js";
import type { SentFile } from "../src/wire/upload.js";
import { STRINGS } from "../src/words/strings.js";
import { json, standIn } from "./server.js";

const { window } = new JSDOM("<!doctype html><body>");
Object.assign(globalThis, { document: window.document, AbortController: window.AbortController, AbortSignal: window.AbortSignal, Node: window.Node, ShadowRoot: window.ShadowRoot, File: window.File, FormData: window.FormData });
Object.assign(URL, { createObjectURL: () => "blob:made", revokeObjectURL: () => undefined });

/** A request that the test answers. */
class Asked {
  static all: Asked[] = [];
  upload: { onprogress?: (event: { loaded: number; total: number }) => void } = {};
  onloadend: () => void = () => undefined;
  status = 0;
  response = "";
  headers: Record<string, string> = {};
  aborted = false;
  body: FormData | null = null;
  open(_method: string, readonly_: string): void {
    this.address = readonly_;
  }
  address = "";
  setRequestHeader(name: string, value: string): void {
    this.headers[name] = value;
  }
  getResponseHeader(): string | null {
    return null;
  }
  send(body: FormData): void {
    this.body = body;
    Asked.all.push(this);
  }
  abort(): void {
    this.aborted = true;
    this.onloadend();
  }
  answer(status: number, body: object): void {
    Object.assign(this, { status, response: JSON.stringify(body) });
    this.onloadend();
  }
}
Object.assign(globalThis, { XMLHttpRequest: Asked });

const RULES = { max_bytes: 1000, max_count: 3, accept: ["image/png", "text/plain"] };
const picked = (name: string, size = 10, type = "text/plain"): File => new window.File(["x".repeat(size)], name, { type });
const stored = (name: string, n = 1): object => ({ id: `file_${n}`, name, mime: "text/plain", size: 10, created_at: "" });
const settled = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 2));

function made(tokens: readonly string[] = ["t1"]): { tray: Tray; node: HTMLElement; dropped: () => number } {
  Asked.all = [];
  let dropped = 0;
  const node = document.createElement("div");
  document.body.replaceChildren(node);
  const get = async (): Promise<string> => tokens[Math.min(dropped, tokens.length - 1)] as string;
  const access = { server: "https://p.example", tokens: { get, drop: () => void (dropped += 1) } };
  return { node, dropped: () => dropped, tray: createTray(node, { rules: RULES, access, strings: STRINGS, changed: () => undefined, signal: new AbortController().signal }) };
}

const button = (node: HTMLElement, label: string): HTMLElement => node.querySelector(`button[aria-label="${label}"]`) as HTMLElement;

test("a file goes to the server at once, says how far it has come, and is taken with the message", async () => {
  const { tray: files, node } = made();
  files.add([picked("notes.txt")]);
  await settled();
  const [request] = Asked.all;
  assert.deepEqual([request?.address, request?.headers["Authorization"]], ["https://p.example/v1/files", "Bearer t1"]);
  assert.equal((request?.body?.get("file") as File).name, "notes.txt");
  request?.upload.onprogress?.({ loaded: 5, total: 10 });
  assert.equal(node.querySelector("progress")?.value, 0.5);
  assert.equal(files.take(), null, "it is not there yet");
  assert.match(node.querySelector("[role=status]")?.textContent ?? "", /goes out when the files are there/);
  request?.answer(201, stored("notes.txt"));
  await settled();
  assert.equal(node.querySelector("progress"), null);
  assert.deepEqual(files.take(), [{ file: "file_1", name: "notes.txt", mime: "text/plain", size: 10 }]);
  assert.equal(node.hidden, true);
});

test("what cannot be sent is said at the file, and holds the message back until it is removed", async () => {
  const { tray: files, node } = made();
  files.add([picked("big.txt", 2000), picked("empty.txt", 0), picked("film.mp4", 10, "video/mp4"), picked("fourth.txt")]);
  await settled();
  assert.equal(Asked.all.length, 0);
  const states = [...node.querySelectorAll(".files-state")].map((each) => each.textContent);
  assert.deepEqual(states, ["This file is too large: at most 1 kB.", "This file is empty.", "Files of this kind cannot be sent here."]);
  assert.match(node.querySelector("[role=status]")?.textContent ?? "", /at most 3/);
  assert.equal(files.take(), null);
  for (const name of ["big.txt", "empty.txt", "film.mp4"]) button(node, `Remove ${name}`).click();
  assert.deepEqual(files.take(), []);
});

test("a file that did not arrive can be tried again; one that the server refuses cannot", async () => {
  const { tray: files, node } = made();
  files.add([picked("a.txt"), picked("b.txt")]);
  await settled();
  Asked.all[0]?.answer(503, { code: "unavailable" });
  Asked.all[1]?.answer(422, { code: "invalid_request" });
  await settled();
  assert.equal(button(node, "Try again: a.txt").hidden, false);
  assert.equal(button(node, "Try again: b.txt").hidden, true);
  button(node, "Try again: a.txt").click();
  await settled();
  Asked.all[2]?.answer(201, stored("a.txt"));
  await settled();
  button(node, "Remove b.txt").click();
  assert.equal(files.take()?.length, 1);
});

test("a cancelled file is not sent on, and a token that has ended is asked for once more", async () => {
  const { tray: files, node, dropped } = made(["old", "new"]);
  files.add([picked("a.txt"), picked("b.txt")]);
  await settled();
  button(node, "Cancel a.txt").click();
  assert.equal(Asked.all[0]?.aborted, true);
  Asked.all[1]?.answer(401, { code: "unauthorized" });
  await settled();
  assert.equal(dropped(), 1);
  assert.equal(Asked.all[2]?.headers["Authorization"], "Bearer new");
  Asked.all[2]?.answer(201, stored("b.txt"));
  await settled();
  assert.deepEqual(files.take()?.map(({ name }) => name), ["b.txt"]);
});

function composer(): { made: Composer; kept: string[][]; sent: [string, readonly SentFile[]][]; area: HTMLTextAreaElement; press: () => void } {
  Asked.all = [];
  const sent: [string, readonly SentFile[]][] = [];
  const kept: string[][] = [];
  const load = (() => Promise.resolve({ attachments: (_host: HTMLElement, options: Parameters<typeof createAttachments>[0]) => createAttachments(options) })) as never;
  const access = { server: "", tokens: { get: async () => null, drop: () => undefined } };
  const composed = createComposer({ strings: STRINGS, access, load, signal: new AbortController().signal, send: (text, files) => sent.push([text, files]), stop: () => undefined, attached: (files) => kept.push(files.map(({ file }) => file)) });
  document.body.replaceChildren(composed.node);
  const area = composed.node.querySelector("textarea") as HTMLTextAreaElement;
  const press = (): void => void area.dispatchEvent(new window.KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true }));
  return { made: composed, kept, sent, area, press };
}

function paste(area: HTMLElement, files: readonly File[], types: readonly string[]): Event {
  const event = new window.Event("paste", { bubbles: true, cancelable: true });
  Object.assign(event, { clipboardData: { files, types } });
  area.dispatchEvent(event);
  return event;
}

test("where files are allowed one is pasted and goes out without a word; a picture beside pasted text does not", async () => {
  const { made: composed, sent, area, press } = composer();
  assert.equal(paste(area, [picked("a.png")], ["Files"]).defaultPrevented, false);
  composed.attach(RULES, composed.node);
  await settled();
  assert.equal(button(composed.node, "Attach files").hidden, false);
  assert.equal(paste(area, [picked("cells.png")], ["text/plain", "Files"]).defaultPrevented, false);
  assert.equal(paste(area, [picked("a.png")], ["Files"]).defaultPrevented, true);
  await settled();
  press();
  assert.equal(sent.length, 0, "it is still on its way");
  Asked.all[0]?.answer(201, stored("a.png"));
  await settled();
  assert.deepEqual(sent.map(([text, files]) => [text, files.length]), [["", 1]], "it goes out as soon as it is there");
});

test("a message that waits for its files goes out by itself, unless it is changed or a file fails", async () => {
  const { made: composed, sent, area, press } = composer();
  composed.attach(RULES, composed.node);
  await settled();
  const said = (): string => composed.node.querySelector(".files-note")?.textContent ?? "";
  const isFault = (): boolean => composed.node.querySelector(".files-note.fault") !== null;
  paste(area, [picked("a.txt"), picked("b.txt")], ["Files"]);
  await settled();
  area.value = "Look";
  press();
  Asked.all[0]?.answer(201, stored("a.txt"));
  await settled();
  assert.deepEqual([sent.length, said()], [0, "Your message goes out when the files are there. Wait a moment, or remove them."]);
  area.value = "Look he";
  area.dispatchEvent(new window.Event("input"));
  assert.equal(said(), "");
  Asked.all[1]?.upload.onprogress?.({ loaded: 5, total: 10 });
  Asked.all[1]?.answer(201, stored("b.txt", 2));
  await settled();
  assert.deepEqual([sent.length, said(), isFault()], [0, "b.txt is ready to send", false]);
  paste(area, [picked("c.txt")], ["Files"]);
  await settled();
  press();
  Asked.all[2]?.answer(503, { code: "unavailable" });
  await settled();
  assert.deepEqual([sent.length, said(), isFault()], [0, "c.txt: The file could not be sent.", true]);
  button(composed.node, "Try again: c.txt").click();
  await settled();
  Asked.all[3]?.answer(201, stored("c.txt", 3));
  await settled();
  assert.equal(sent.length, 0);
  press();
  assert.deepEqual(sent.map(([text, files]) => [text, files.length]), [["Look he", 3]]);
});

test("files belong to the conversation that they were attached in, and what is on the server outlives the composer", async () => {
  const { made: composed, sent, area, press, kept } = composer();
  composed.write("", [{ file: "file_7", name: "kept.txt", mime: "text/plain", size: 10 }]);
  composed.attach(RULES, composed.node);
  await settled();
  paste(area, [picked("a.txt"), picked("b.txt")], ["Files"]);
  await settled();
  Asked.all[0]?.answer(201, stored("a.txt"));
  await settled();
  assert.deepEqual(kept.at(-1), ["file_7", "file_1"]);
  press();
  composed.write("Other", []);
  assert.equal(Asked.all[1]?.aborted, true);
  await settled();
  assert.deepEqual([composed.node.querySelectorAll(".files-item").length, sent.length], [0, 0]);
  composed.attach(null, composed.node);
  composed.restore("", [{ file: "file_8", name: "back.txt", mime: "text/plain", size: 10 }]);
  composed.attach(RULES, composed.node);
  await settled();
  press();
  assert.deepEqual([sent.map(([text, files]) => [text, files.map(({ file }) => file)]), kept.at(-1)], [[["Other", ["file_8"]]], []]);
});

test("what was not taken comes back with its files", async () => {
  const { made: composed, sent, area, press } = composer();
  composed.attach(RULES, composed.node);
  await settled();
  composed.restore("Look", [{ file: "file_1", name: "a.txt", mime: "text/plain", size: 10 }]);
  await settled();
  assert.equal(area.value, "Look");
  press();
  assert.deepEqual(sent.map(([text, files]) => [text, files[0]?.file]), [["Look", "file_1"]]);
});

test("a message of files alone is sent without a text, and found again in the log", async () => {
  const server = standIn(() => json(202, { message_id: "m", run_id: "r", seq: 3 }));
  const client = createClient({ server: "", tokens: { get: async () => null, drop: () => undefined }, fetch: server.fetch, pause: async () => undefined, random: () => 0 });
  await client.post("ses_1", "", "k1", new AbortController().signal, ["file_1"]);
  assert.deepEqual(server.seen[0]?.body, { files: ["file_1"], idempotency_key: "k1" });
  const file = { file: "file_1", name: "a.txt", mime: "text/plain", size: 10 };
  const outgoing: Outgoing = { key: "k1", text: "", files: [file], status: "sending", since: 2 };
  const message = { id: "m", role: "user", seq: 3, parts: [{ type: "file", ...file, file: "blob_9" }] } as unknown as Message;
  assert.deepEqual(unshown([outgoing], { ...EMPTY, seq: 3, messages: [message] }), []);
  assert.deepEqual(unshown([outgoing], { ...EMPTY, seq: 3, messages: [{ ...message, parts: [] }] }), [outgoing]);
});

test("sizes are written as people read them", () => {
  assert.deepEqual([0, 999, 1000, 1_440_000, 25_000_000].map((each) => sizeOf(each, "en")), ["0 bytes", "999 bytes", "1 kB", "1.4 MB", "25 MB"]);
});

test("what arrives after the conversation was changed is kept in none, and the tray shows that of the one on the screen", async () => {
  Asked.all = [];
  const frames: (() => void)[] = [];
  const paint = async (): Promise<void> => {
    await settled();
    for (const each of frames.splice(0)) each();
    await settled();
  };
  Object.assign(globalThis, { requestAnimationFrame: (each: () => void) => frames.push(each), ResizeObserver: class { observe(): void {} disconnect(): void {} }, MutationObserver: window.MutationObserver });
  const kept = new Map<number, readonly SentFile[]>();
  let talk = 0;
  const actions = { write: () => undefined, draft: () => "", attached: () => kept.get(talk) ?? [], attach: (files: readonly SentFile[]) => void kept.set(talk, files) } as unknown as Actions;
  const load = ((name: string) => (name === "files" ? Promise.resolve({ attachments: (_host: HTMLElement, options: Parameters<typeof createAttachments>[0]) => createAttachments(options) }) : Promise.reject(new Error("not here")))) as never;
  const access = { server: "", tokens: { get: async () => null, drop: () => undefined } };
  const view = createView({ strings: STRINGS, actions, request: () => Promise.reject(new Error("not here")), access, load, signal: new AbortController().signal });
  document.body.replaceChildren(view.node);
  const show = (shown: number): void => view.show({ ...FRESH, talk: (talk = shown), agent: { files: RULES } as unknown as AgentFace });
  const names = (): (string | null)[] => [...view.node.querySelectorAll(".files-name")].map((each) => each.textContent);
  show(0);
  await paint();
  paste(view.node.querySelector("textarea") as HTMLElement, [picked("a.txt"), picked("b.txt")], ["Files"]);
  await settled();
  Asked.all[0]?.answer(201, stored("a.txt"));
  await settled();
  show(1);
  Asked.all[1]?.answer(201, stored("b.txt", 2));
  await paint();
  assert.deepEqual([names(), kept.get(1), kept.get(0)?.map(({ name }) => name)], [[], undefined, ["a.txt"]]);
  show(0);
  await paint();
  assert.deepEqual(names(), ["a.txt"], "they are there where they were attached");
});
