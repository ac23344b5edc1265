import assert from "node:assert/strict";
import { createScroller } from "../src/transcript/scroll.js";
import { STRINGS } from "../src/words/strings.js";
import { testPage } from "./page.js";

const page = testPage("https://shop.example/", fetch);
const turn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve));

/** A list of 1000 pixels with a window of 400, at its end; its frames come and its sizes change when the test says so. */
function setting() {
  const targets = new Set<Element>();
  const frames: (() => void)[] = [];
  let resize = (): void => undefined;
  const resizes = class {
    constructor(settle: () => void) { resize = settle; }
    observe(node: Element): void { targets.add(node); }
    unobserve(node: Element): void { targets.delete(node); }
    disconnect(): void { targets.clear(); }
  };
  Object.assign(globalThis, { ResizeObserver: resizes, requestAnimationFrame: (run: () => void) => frames.push(run) });
  const list = document.createElement("div");
  const size = { scrollHeight: 1000, clientHeight: 400, scrollTop: 600 };
  for (const name of ["scrollHeight", "clientHeight", "scrollTop"] as const) {
    Object.defineProperty(list, name, { get: () => size[name], set: (value: number) => void (size[name] = name === "scrollTop" ? Math.min(value, size.scrollHeight - size.clientHeight) : value) });
  }
  const life = new AbortController();
  const { node } = createScroller(list, STRINGS, life.signal);
  const grow = (by: number): void => ((size.scrollHeight += by), resize());
  const click = (target: Element): void => void target.dispatchEvent(new page.window.MouseEvent("click", { bubbles: true }));
  const paint = (): void => frames.splice(0).forEach((run) => run());
  const scroll = (top: number): void => ((size.scrollTop = top), void list.dispatchEvent(new page.window.Event("scroll")));
  scroll(600);
  return { list, size, targets, button: node, grow, click, paint, scroll };
}

/** An entry as high as all of *list*. */
function entryOf(list: HTMLElement): HTMLElement {
  const entry = document.createElement("div");
  entry.className = "entry";
  list.getBoundingClientRect = () => ({ top: 0, bottom: 400, height: 400 }) as DOMRect;
  entry.getBoundingClientRect = () => ({ top: -list.scrollTop, bottom: list.scrollHeight - list.scrollTop, height: list.scrollHeight }) as DOMRect;
  entry.getClientRects = () => [entry.getBoundingClientRect()] as unknown as DOMRectList;
  return entry;
}

page.test("an entry that leaves the list is watched no longer, and one that moves in it still is", async () => {
  const { list, targets } = setting();
  const [first, second, third] = [document.createElement("div"), document.createElement("div"), document.createElement("div")];
  list.append(first, second);
  await turn();
  assert.deepEqual(targets, new Set([list, first, second]));
  list.replaceChildren(third);
  await turn();
  assert.deepEqual(targets, new Set([list, third]));
  list.append(first);
  list.prepend(first);
  await turn();
  assert.deepEqual(targets, new Set([list, third, first]));
});

page.test("where the entry that is read is replaced, the one below it keeps its place", () => {
  const { list, size, button, grow, scroll } = setting();
  const [sending, next] = [list.appendChild(entryOf(list)), list.appendChild(document.createElement("div"))];
  next.getBoundingClientRect = () => ({ top: 500 + (size.scrollHeight - 1000) - size.scrollTop, bottom: 600, height: 100 }) as DOMRect;
  next.getClientRects = () => [next.getBoundingClientRect()] as unknown as DOMRectList;
  scroll(100);
  sending.replaceWith(entryOf(list));
  grow(40);
  assert.deepEqual([size.scrollTop, button.hidden], [140, false]);
});

page.test("a click that opens nothing does not end the following of a text that grows meanwhile", () => {
  const { list, size, button, grow, click, paint } = setting();
  const copy = list.appendChild(entryOf(list)).appendChild(document.createElement("button"));
  list.append(document.createElement("div"));
  for (const target of [list, copy]) {
    click(target);
    size.scrollHeight += 100;
    paint();
    grow(0);
    assert.deepEqual([size.scrollTop, button.hidden], [size.scrollHeight - 400, true]);
  }
});

page.test("what a person opens at the end ends the following until it is closed, be it a summary or a button", () => {
  for (const tag of ["summary", "button"] as const) {
    const { list, size, button, grow, click, paint } = setting();
    const opener = list.appendChild(entryOf(list)).appendChild(document.createElement(tag));
    if (tag === "button") opener.setAttribute("aria-expanded", "false");
    click(opener);
    size.scrollHeight += 100;
    paint();
    grow(0);
    assert.deepEqual([size.scrollTop, button.hidden], [600, false]);
    click(opener);
    size.scrollHeight -= 100;
    paint();
    grow(0);
    grow(100);
    assert.deepEqual([size.scrollTop, button.hidden], [700, true]);
  }
});

page.test("a person a little above the end stays there when something below shrinks and grows", () => {
  const { list, size, button, grow, scroll } = setting();
  list.append(entryOf(list));
  scroll(520);
  grow(-50);
  grow(300);
  assert.deepEqual([size.scrollTop, button.hidden], [520, false]);
});
