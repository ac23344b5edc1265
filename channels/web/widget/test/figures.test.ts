import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { csvOf } from "../src/drawn/format.js";
import { pictureOf } from "../src/drawn/layout.js";
import { chartOf, dataOf, tableFrom, tableOf, type DataTable } from "../src/drawn/payload.js";
import { textOf, type Render } from "../src/log/state.js";
import { JSDOM } from "jsdom";
import { markdownNodes } from "../src/markdown/markdown.js";
import { fold, framesOf } from "./golden.js";

declare const GOLDEN: string; // set by scripts/test.mjs

const { renders: figures, messages } = fold(framesOf("figures"));
const words = { category: "category", series: "series" };

function formOf({ kind, payload }: Render): string {
  if (kind === "table") return tableOf(payload) ? "table" : "text";
  if (kind !== "chart") return "text";
  return chartOf(payload)?.type ?? "picture";
}

function rowsOf({ kind, payload }: Render): DataTable | null {
  if (kind === "table") return tableOf(payload);
  const chart = chartOf(payload);
  return chart ? tableFrom(chart, words) : dataOf(payload);
}

test("the page draws the table, each plain chart and a picture, and the rest is text", () => {
  assert.deepEqual(figures.map(formOf), ["table", "bar", "bar", "line", "area", "pie", "scatter", "picture", "text", "text"]);
});

/** The marks of each type of chart: a bar, a slice or a point for each value, for others a place on a line. */
const MARKS = { bar: "bar", pie: "slice", scatter: "point", line: "dot", area: "dot" } as const;

test("each plain chart has a mark for each of its values", () => {
  const counts = figures.flatMap(({ payload }) => {
    const chart = chartOf(payload);
    if (!chart) return [];
    const { shapes } = pictureOf(chart, { width: 600, hidden: new Set<number>(), locale: "en-US" });
    const marks = shapes.filter(({ is }) => String(is["class"]).split(" ")[0] === MARKS[chart.type]);
    const values = chart.series.flatMap<unknown>((each) => (chart.type === "scatter" ? each.points : each.values)).filter((each) => each !== null);
    const places = shapes.filter(({ is }) => String(is["class"]).startsWith("line ")).flatMap(({ is }) => String(is["d"]).split("L"));
    assert.equal(marks.length, values.length, chart.type);
    if (chart.type === "line" || chart.type === "area") assert.equal(places.length, values.length, chart.type);
    return [values.length];
  });
  assert.ok(counts.length === 6 && counts.every((each) => each > 1), String(counts));
});

test("what the page saves is what the server gives", () => {
  const files = JSON.parse(readFileSync(join(GOLDEN, "figures.csv.json"), "utf8")) as Readonly<Record<string, readonly string[]>>;
  const saved = figures.flatMap((figure) => {
    const rows = rowsOf(figure);
    return rows ? [[figure.title ?? "", csvOf(rows).split("\r\n")]] : [];
  });
  assert.deepEqual(Object.fromEntries(saved), files);
});

test("a table that the model writes by hand is a table", () => {
  globalThis.document = new JSDOM("").window.document;
  const host = document.createElement("div");
  host.append(...markdownNodes(textOf(messages.at(-1)?.parts ?? []), { copy: "Copy" }));
  const rows = [...host.querySelectorAll("tr")].map((row) => [...row.cells].map(({ textContent }) => textContent));
  assert.deepEqual(rows, [["City", "Orders"], ["Oslo", "1,200"], ["Bo & <b>Sons</b>", "80"]]);
});
