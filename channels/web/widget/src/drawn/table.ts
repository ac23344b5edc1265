/** A table that is sorted, copied and saved: every cell is a text node. */

import { h, setAttribute } from "../dom.js";
import { alignOf, csvOf, sorted, writer } from "./format.js";
import { frameOf } from "./frame.js";
import type { Column, DataTable, Row } from "./payload.js";
import { copyTable, saveFile } from "./save.js";
import { plural } from "../words/plural.js";
import { fill, type DrawnStrings } from "./words.js";

const [FIRST, STEP] = [50, 1_000]; // rows shown at first, and at most those that are added at a time
const [LONG, WIDE, FIRST_WIDE] = [300, 28, 14]; // characters of a cell that scrolls, and of a column, or the first one, that may wrap
const OF_OTHERS = /[\u0590-\u08ff\u200e-\u200f\u202a-\u202e\u2066-\u2069\ufb1d-\ufefc]/; // written from right to left, or turning what follows

/** Return *table* as a figure called *title*. */
export function tableNode(table: DataTable, title: string | undefined, words: DrawnStrings): HTMLElement {
  const frame = frameOf(title, words.table, words);
  const { node, current } = gridOf(table, title ?? words.table, words, frame.say);
  const copy = async (button: HTMLElement): Promise<void> => {
    await copyTable(current());
    flash(button, words);
    frame.say(words.copied);
  };
  if (isSecureContext) frame.button(words.copy, words.copy, copy); // others have no clipboard
  frame.button(words.csv, words.saveCsv, () => saveFile(csvBlob(current()), title ?? words.table, "csv"));
  frame.node.append(node);
  return frame.node;
}

/** Return *table* as a file of CSV. */
export function csvBlob(table: DataTable): Blob {
  return new Blob([csvOf(table)], { type: "text/csv;charset=utf-8" });
}

function flash(button: HTMLElement, words: DrawnStrings): void {
  const [text, done] = [words.copy, words.copied];
  button.textContent = done;
  setTimeout(() => (button.textContent = text), 1500);
}

interface Grid {
  readonly node: HTMLElement;
  /** Return the table in the order in which it is shown. */
  current(): DataTable;
}

/** Return the grid alone: *say* announces how it is sorted. */
export function gridOf({ columns, rows }: DataTable, name: string, words: DrawnStrings, say: (text: string) => void): Grid {
  const { locale } = words;
  const draw = drawing(columns, rows, words);
  const body = h("tbody");
  const heads = columns.map((column, at) => h("th", { scope: "col", class: draw.classes[at] ?? null }, h("button", { type: "button" }, plain(column.label))));
  const caption = h("caption", { class: "hidden" }, `${name}, ${plural(words.shown, rows.length, locale)}`);
  const grid = h("table", { "aria-rowcount": String(rows.length + 1) }, caption, h("thead", {}, h("tr", {}, ...heads)), body);
  const box = h("div", { class: "table", tabindex: "0", role: "region", "aria-label": name }, grid);
  const more = h("button", { type: "button", class: "quiet more" });
  const node = h("div", {}, rows.length ? edged(box, grid, heads[0]) : h("p", { class: "note" }, words.empty));
  let [order, shown, by, isDescending] = [rows, FIRST, -1, false];

  const paint = (): void => {
    body.replaceChildren(...order.slice(0, shown).map(draw.row));
    more.remove();
    if (order.length <= shown) return;
    const isAll = order.length - shown <= STEP;
    more.textContent = plural(isAll ? words.all : words.further, isAll ? order.length : STEP, locale);
    node.append(more);
  };
  const sort = (at: number): void => {
    [by, isDescending] = by !== at ? [at, false] : isDescending ? [-1, false] : [at, true];
    const column = columns[by];
    order = column ? sorted(rows, column.key, isDescending, locale) : rows;
    heads.forEach((head, each) => setAttribute(head, "aria-sort", each === by && (isDescending ? "descending" : "ascending")));
    paint();
    say(column ? fill(isDescending ? words.descending : words.ascending, { column: column.label }) : words.unsorted);
  };
  heads.forEach((head, at) => head.firstElementChild?.addEventListener("click", () => sort(at)));
  more.addEventListener("click", () => {
    const next = shown;
    shown = Math.min(order.length, shown + STEP);
    paint();
    say(plural(words.shown, shown, locale));
    box.focus({ preventScroll: true }); // the button is gone
    body.children[next]?.scrollIntoView({ block: "nearest" });
  });
  paint();
  return { node, current: () => ({ columns, rows: order }) };
}

/** Return *box* with a shadow at each side to which *grid* can still be scrolled; the *first* column stays in sight. */
function edged(box: HTMLElement, grid: HTMLElement, first: HTMLElement | undefined): HTMLElement {
  const node = h("div", { class: "edges" }, box);
  const look = (): void => {
    const [at, most] = [Math.abs(box.scrollLeft), box.scrollWidth - box.clientWidth]; // it is negative from right to left
    node.classList.toggle("more-before", at > 1);
    node.classList.toggle("more-after", most - at > 1);
    node.style.setProperty("--first", `${first?.offsetWidth ?? 0}px`);
  };
  box.addEventListener("scroll", look, { passive: true });
  const size = new ResizeObserver(look);
  for (const each of [box, grid]) size.observe(each);
  return node;
}

/** Return what draws a row, once, and the classes of the columns. */
function drawing(columns: readonly Column[], rows: readonly Row[], words: DrawnStrings) {
  const writers = columns.map((column) => writer(column, rows.map((row) => row[column.key]), words, words.locale));
  const classes = columns.map((column, at) => {
    const texts = rows.map((row) => writers[at]?.(row[column.key]) ?? "");
    const isWide = at ? texts.some(({ length }) => length > WIDE) : [column.label, ...texts].some(({ length }) => length > FIRST_WIDE);
    return [alignOf(column, rows), isWide && "wide"].filter(Boolean).join(" ");
  });
  const drawn = new Map<Row, HTMLElement>();
  const cell = (row: Row, { key }: Column, at: number): HTMLElement => {
    const text = writers[at]?.(row[key]) ?? "";
    const content = text.length > LONG ? h("div", { class: "long", tabindex: "0" }, plain(text)) : plain(text);
    return at ? h("td", { class: classes[at] ?? null }, content) : h("th", { scope: "row", class: classes[at] ?? null }, content);
  };
  const row = (given: Row): HTMLElement => {
    const known = drawn.get(given) ?? h("tr", {}, ...columns.map((column, at) => cell(given, column, at)));
    drawn.set(given, known);
    return known;
  };
  return { row, classes };
}

/** Return *text* as a node that turns nothing around it. */
function plain(text: string): Node | string {
  return OF_OTHERS.test(text) ? h("bdi", {}, text) : text;
}
