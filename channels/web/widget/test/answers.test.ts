import assert from "node:assert/strict";
import { test } from "node:test";
import { JSDOM } from "jsdom";
import { answerFoot } from "../src/answers/answer.js";
import { kindOf, sizeOf } from "../src/answers/file.js";
import { questionFoot } from "../src/answers/question.js";
import { ANSWERS } from "../src/answers/words.js";
import type { Citation } from "../src/log/events.js";
import type { Given } from "../src/talk/feedback.js";
import type { Answer, Block, Question } from "../src/transcript/entries.js";
import { markdownNodes } from "../src/markdown/markdown.js";
import type { Offers, Scene } from "../src/transcript/scene.js";
import { asProblem } from "../src/wire/problem.js";
import { STRINGS } from "../src/words/strings.js";

const { window } = new JSDOM("<!doctype html><body>");
Object.assign(globalThis, { document: window.document, AbortController: window.AbortController, AbortSignal: window.AbortSignal, Node: window.Node });

const draw = (text: string): readonly Node[] => markdownNodes(text, STRINGS);
const textBlock = (text: string, citations?: readonly Citation[]): Block => ({ kind: "text", key: "m:0", text, open: false, citations });
const ANSWER: Answer = {
  kind: "answer", key: "m", time: Date.UTC(2026, 0, 5, 9), blocks: [textBlock("It is **so**.")], busy: false, thinking: false,
  run: { id: "run_1", status: "completed", started: true, cancelling: false }, mark: null, by: null, again: null, newest: true, asked: "q", feedback: undefined,
};

interface Shown {
  readonly host: HTMLElement;
  readonly body: HTMLElement;
  /** What was done, in order. */
  readonly done: unknown[][];
  readonly update: (changes: Partial<Answer>) => void;
  readonly press: (name: string) => void;
  readonly names: () => readonly (string | null)[];
}

function shown(changes: Partial<Answer> = {}, offers: Partial<Offers> | null = {}): Shown {
  const done: unknown[][] = [];
  const all: Offers = {
    send: (...given) => void done.push(["send", ...given]),
    feedback: (...given) => void done.push(["feedback", ...given]),
    regenerate: (...given) => void done.push(["regenerate", ...given]),
    focus: () => void done.push(["focus"]),
    ...offers,
  };
  const scene = { strings: STRINGS, request: null, load: null, decide: null, ...(offers && { offers: all }) } as unknown as Scene;
  const [host, body] = [document.createElement("div"), document.createElement("div")];
  document.body.replaceChildren(body, host);
  let answer = { ...ANSWER, ...changes };
  for (const block of answer.blocks) {
    if (block.kind !== "text") continue;
    const node = document.createElement("div");
    node.className = "text";
    node.append(...draw(block.text));
    body.append(node);
  }
  const show = answerFoot(host, body, scene, draw, ANSWERS);
  show(answer);
  const names = (): readonly (string | null)[] => [...host.querySelectorAll("button")].map((each) => each.getAttribute("aria-label") ?? each.textContent);
  const press = (name: string): void => [...host.querySelectorAll("button")].find((each) => (each.getAttribute("aria-label") ?? each.textContent) === name)?.click();
  return { host, body, done, press, names, update: (more) => show((answer = { ...answer, ...more })) };
}

test("under the newest answer are copy, thumbs and another try, and its time", () => {
  const { host, names, update, press, done } = shown();
  assert.deepEqual(names(), ["Copy", "Good answer", "Bad answer", "Answer again"]);
  assert.equal(host.querySelector("time")?.dateTime, "2026-01-05T09:00:00.000Z");
  assert.match(host.querySelector("time")?.title ?? "", /2026/);
  press("Answer again");
  assert.deepEqual(done, [["focus"], ["regenerate", "q"]]);
  update({ newest: false, asked: null });
  assert.deepEqual(names(), ["Copy", "Good answer", "Bad answer"]);
});

test("what a page does not offer has no button: on an operator's page none is there", () => {
  assert.deepEqual(shown({}, null).names(), []);
  assert.equal(shown({}, null).host.childElementCount, 0);
  assert.deepEqual(shown({ by: "Meg", asked: null }).names(), ["Copy"]);
  assert.deepEqual(shown({ again: { text: "Once more", files: [] }, blocks: [] }).names(), []);
});

test("a thumb counts at once, its reason is asked for, and Escape ends the form alone", () => {
  const { host, press, done, names, update } = shown();
  press("Bad answer");
  assert.deepEqual(done, [["feedback", "run_1", "down"]]);
  update({ feedback: { rating: "down", sending: true } });
  assert.equal(host.querySelector("[aria-pressed=true]")?.getAttribute("aria-label"), "Bad answer");
  press("Not correct");
  press("Incomplete");
  press("Incomplete");
  press("Hard to understand");
  const text = host.querySelector("textarea") as HTMLTextAreaElement;
  text.value = " No sources. ";
  host.querySelector("form")?.requestSubmit();
  assert.deepEqual(done.at(-1), ["feedback", "run_1", "down", "Not correct, Hard to understand\nNo sources."]);
  assert.equal(host.querySelector("[role=status]")?.textContent, "Thank you for your feedback.");
  assert.deepEqual([host.querySelector("form"), document.activeElement?.getAttribute("aria-label")], [null, "Bad answer"]);
  press("Bad answer");
  assert.equal(done.length, 2, "the same thumb asks for the reason once more, and rates nothing");
  let passed = false;
  document.body.addEventListener("keydown", () => (passed = true), { once: true });
  host.querySelector("textarea")?.dispatchEvent(new window.KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
  assert.deepEqual([host.querySelector("form"), passed, names().length], [null, false, 4]);
});

test("a rating that was refused is explained", () => {
  const { host, update } = shown();
  const problem = Object.assign(new Error(""), { status: 404, code: "not_found" });
  const given: Given = { rating: null, sending: false, problem: asProblem(problem) };
  update({ feedback: given });
  assert.equal(host.querySelector("[role=alert]")?.textContent, "Your feedback was not stored: That is no longer available.");
  assert.equal(host.querySelector("[aria-pressed=true]"), null);
  update({ feedback: { rating: "up", sending: false } });
  assert.equal(host.querySelector("[role=alert]"), null);
});

test("suggestions are under the newest answer, send what they stand for, and what is none is left out", () => {
  const suggestions = (items: unknown): Block => ({ kind: "render", key: "r", render: { id: "r", call: "c", message: "m", kind: "suggestions", payload: { items }, text: "t" } });
  const items = [{ label: "More", prompt: "Tell me more." }, { label: "", prompt: "x" }, null, { label: 5, prompt: "x" }, { label: "<b>Less</b>", prompt: "Less." }];
  const { host, press, done, update } = shown({ blocks: [textBlock("Yes."), suggestions(items)] });
  assert.deepEqual([...host.querySelectorAll(".suggestions button")].map((each) => each.textContent), ["More", "<b>Less</b>"]);
  press("More");
  assert.deepEqual(done, [["focus"], ["send", "Tell me more."]]);
  update({ newest: false });
  assert.equal(host.querySelector(".suggestions"), null);
  for (const odd of ["x", null, {}, [[]]]) assert.equal(shown({ blocks: [suggestions(odd)] }).host.querySelector(".suggestions"), null);
});

function cited(text: string, ...citations: Citation[]): Shown {
  return shown({ blocks: [textBlock(text, citations)] }, null);
}
const marks = ({ body }: Shown): readonly string[] => [...body.querySelectorAll(".cite")].map((each) => `${each.previousSibling?.textContent?.slice(-4)}[${each.textContent}]`);

test("sources are numbered where they are used, each once, and only those of the web can be followed", () => {
  const text = "🙂 One is *so*. Two, too.\n\n- `three`";
  const site = { title: "Site", url: "https://x.example/a" };
  const page = cited(text, { start: 0, end: 14, ...site }, { start: 15, end: 24, title: "Book", url: "javascript:alert(1)" }, { end: 24, ...site }, { end: 35, url: "http://y.example/b" });
  assert.deepEqual(marks(page), [".[1]", "too.[2]", "2[1]", "hree[3]"]);
  const rows = [...page.host.querySelectorAll(".sources li")];
  assert.deepEqual(rows.map((row) => [row.textContent, row.querySelector("a")?.getAttribute("href") ?? null]), [["Site", "https://x.example/a"], ["Book", null], ["y.example", "http://y.example/b"]]);
  assert.equal(page.body.querySelector(".cite a")?.getAttribute("rel"), "noopener noreferrer nofollow");
  assert.equal(page.body.textContent?.replaceAll(/\d/g, "").trim(), "🙂 One is so. Two, too.three");
});

test("where a mark would change what is shown it comes at the end, and one of no place in no text", () => {
  const text = "See https://x.example/docs.html for it.\n\nEnd.";
  const inside = cited(text, { end: 14, title: "A" }, { title: "B" });
  assert.deepEqual(marks(inside), ["End.[1]", "1[2]"]);
  assert.equal(inside.body.querySelector("a")?.getAttribute("href"), "https://x.example/docs.html");
  assert.deepEqual(marks(cited("# Title", { title: "B" })), []);
  assert.deepEqual(marks(cited("It has \u2e4f already.", { end: 4, title: "B" })), ["ady.[1]"]);
});

test("code keeps its node, and so its colours, when sources come into the text around it", () => {
  const text = "So:\n\n```py\nx = 1\n```\n\nDone.";
  const { body, host } = shown({ blocks: [textBlock(text, [{ end: 3, title: "A" }])], busy: false }, null);
  assert.equal(host.querySelectorAll(".sources li").length, 1);
  assert.equal(body.querySelector(".code pre")?.textContent, "x = 1");
  assert.equal(body.querySelectorAll(".code").length, 1);
});

test("headings leave out no level, boxes have names, links say that they leave the page", () => {
  const { body } = shown({ blocks: [textBlock("## A\n\n#### B\n\n# C\n\n- [x] done *it*\n  - [ ] sub\n\n[a](https://x.example) [m](mailto:a@x.example)"), textBlock("- [ ] one\n\n- [x] two")] }, null);
  assert.deepEqual([...body.querySelectorAll("h3,h4,h5,h6")].map((each) => each.getAttribute("aria-level")), ["3", "4", "3"]);
  assert.deepEqual([...body.querySelectorAll("input")].map((each) => each.getAttribute("aria-label")), ["done it", "sub", "one", "two"]);
  assert.deepEqual([...body.querySelectorAll("a")].map((each) => each.title), ["Opens in a new tab", ""]);
});

const QUESTION: Question = { kind: "question", key: "q", time: 1, text: "Old words", files: [], editable: true, tag: null, run: null, outgoing: null };

function edited(answers = true): { host: HTMLElement; bubble: HTMLElement; done: unknown[][]; update: (changes: Partial<Question>) => void; key: (key: string, more?: object) => void } {
  const done: unknown[][] = [];
  const offers = { edit: async (...given: unknown[]) => (done.push(given), answers), focus: () => void done.push(["focus"]) } as unknown as Offers;
  const [host, bubble] = [document.createElement("div"), document.createElement("p")];
  document.body.replaceChildren(bubble, host);
  const show = questionFoot(host, bubble, { strings: STRINGS } as Scene, offers, ANSWERS);
  show(QUESTION);
  const key = (name: string, more: object = {}): void => void document.querySelector("textarea")?.dispatchEvent(new window.KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true, ...more }));
  return { host, bubble, done, key, update: (changes) => show({ ...QUESTION, ...changes }) };
}
const settled = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 5));
const area = (): HTMLTextAreaElement => document.querySelector("textarea") as HTMLTextAreaElement;

test("the newest message of one's own is put in other words: Enter sends, Escape leaves it", async () => {
  const { host, bubble, done, key } = edited();
  const edit = host.querySelector("[aria-label=Edit]") as HTMLElement;
  edit.click();
  assert.deepEqual([bubble.hidden, area().value, document.activeElement === area()], [true, "Old words", true]);
  key("Escape");
  assert.deepEqual([bubble.hidden, document.querySelector("form"), document.activeElement === edit], [false, null, true]);
  edit.click();
  area().value = "New words ";
  key("Enter", { shiftKey: true });
  key("Enter", { isComposing: true });
  assert.deepEqual(done, []);
  key("Enter");
  await settled();
  assert.deepEqual(done, [["q", "New words"], ["focus"]]);
  assert.equal(document.querySelector("form"), null);
});

test("words that were not taken stay in the form, and the same words send nothing", async () => {
  const { host, done, key } = edited(false);
  (host.querySelector("[aria-label=Edit]") as HTMLElement).click();
  area().value = "New words";
  key("Enter");
  await settled();
  assert.deepEqual([done, area().value], [[["q", "New words"]], "New words"]);
  area().value = "Old words";
  key("Enter");
  await settled();
  assert.deepEqual([done.length, document.querySelector("form")], [1, null]);
});

test("an older message is copied, not edited, and a deleted one neither", () => {
  const { host, update } = edited();
  const names = (): readonly (string | null)[] => [...host.querySelectorAll("button")].map((each) => each.getAttribute("aria-label"));
  assert.deepEqual(names(), ["Copy", "Edit"]);
  update({ editable: false });
  assert.deepEqual(names(), ["Copy"]);
  update({ text: "", tag: "deleted", editable: false });
  assert.deepEqual(names(), []);
});

test("files are named as people do", () => {
  const sizes = [0, 999, 1000, 1_234_567, 5e9].map((size) => sizeOf(size, ANSWERS, "en-US"));
  assert.deepEqual(sizes, ["0 B", "999 B", "1 kB", "1.23 MB", "5 GB"]);
  const kinds = (["a.pdf|application/pdf", "b|image/png", "c|application/vnd.oasis.opendocument.text", "d.Tar.GZ|x/y"] as const).map((each) => each.split("|") as [string, string]);
  assert.deepEqual(kinds.map(([name, mime]) => kindOf({ file: "f", name, mime, size: 1 })), ["PDF", "PNG", "", "GZ"]);
});

test("times are written in the widget's language, not in the browser's", () => {
  const [host, bubble] = [document.createElement("div"), document.createElement("p")];
  const time = new Date(2026, 0, 5, 21, 30).getTime();
  for (const [locale, shown, full] of [["de", "21:30", "Montag, 5. Januar 2026 um 21:30"], ["en-US", "9:30 PM", "Monday, January 5, 2026 at 9:30 PM"]] as const) {
    questionFoot(host, bubble, { strings: { ...STRINGS, locale } } as Scene, {} as Offers, ANSWERS)({ ...QUESTION, time });
    const node = host.querySelector("time");
    assert.deepEqual([node?.textContent, node?.title].map((text) => text?.replace(/\s/g, " ")), [shown, full]);
  }
});
