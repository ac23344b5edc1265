import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { alignOf, csvOf, htmlOf, inert, sorted, tsvOf, writer } from "../src/drawn/format.js";
import { pictureOf } from "../src/drawn/layout.js";
import { chartOf, dataOf, tableFrom, tableOf, type DataTable } from "../src/drawn/payload.js";

declare const GOLDEN: string; // set by scripts/test.mjs

type Payload = Readonly<Record<string, unknown>>;

const WORDS = { yes: "yes", no: "no", category: "Category", series: "Series" };
const ODD = ["constructor", "toString", "__proto__", "valueOf", "hasOwnProperty"];
const WIDE = { width: 600, hidden: new Set<number>(), locale: "en-US" };
/** As a page receives it: `__proto__` is a key like others. */
const received = (payload: unknown): Payload => JSON.parse(JSON.stringify(payload)) as Payload;

/** Do with *table* all that the page does, and return what it saves. */
function used(table: DataTable): string {
  for (const column of table.columns) {
    const write = writer(column, table.rows.map((row) => row[column.key]), WORDS, "en-US");
    for (const row of table.rows) assert.equal(typeof write(row[column.key]), "string");
    alignOf(column, table.rows);
    sorted(table.rows, column.key, true, "en");
  }
  return [csvOf(table), tsvOf(table), htmlOf(table)].join("\n");
}

test("a column may be called like what each object of JavaScript has, and is empty where a row lacks it", () => {
  const columns = ODD.map((key) => ({ key, label: key }));
  const table = tableOf(received({ columns, rows: [{}, JSON.parse('{"__proto__": 5, "constructor": "mine"}')] })) as DataTable;
  assert.doesNotMatch(used(table), /function|native|object Object/);
  assert.match(csvOf(table), /"","","","",""\r\n"mine","","5","",""/);
  for (const key of ODD) assert.equal(writer({ key: "k", label: "K", format: key }, [1], WORDS, "en-US")(1), "1");
  assert.doesNotMatch(used(dataOf({ spec: { data: { values: [{ a: 1 }, { constructor: "x" }] } } }) as DataTable), /function/);
});

test("what a column says of its look is read where it is right, and left out where it is not", () => {
  const columns = [null, 5, {}, [], "percent"].map((format, at) => ({ key: `${at}`, label: "L", format, align: format }));
  const { columns: read } = tableOf({ columns, rows: [{ 0: 1, 4: 0.5 }] }) as DataTable;
  assert.deepEqual(read.map(({ format, align }) => [format, align]), [...Array.from({ length: 4 }, () => [undefined, undefined]), ["percent", undefined]]);
});

test("names that are no text make no chart", () => {
  const series = [{ name: "s", values: [1] }];
  for (const odd of [{ toString: 1 }, null, 5, ["a"], {}]) {
    assert.equal(chartOf({ plain: { type: "bar", categories: [odd], series } }), null);
    assert.equal(chartOf({ plain: { type: "bar", categories: ["a"], series: [{ ...series[0], name: odd }] } }), null);
    assert.equal(chartOf({ plain: { type: odd, categories: ["a"], series } }), null);
  }
  assert.equal(chartOf({ plain: { type: ["bar"], categories: ["a"], series } }), null);
});

test("what is too large to be drawn stays text, and what is large is drawn", () => {
  const rows = Array.from({ length: 130_000 }, (_, n) => ({ n }));
  const column = { key: "n", label: "N", format: "number" };
  assert.ok(used(tableOf({ columns: [column], rows }) as DataTable).length > 1e6);
  assert.equal(tableOf({ columns: [column, column], rows }), null);
  assert.equal(tableOf({ columns: Array.from({ length: 201 }, () => column), rows: [] }), null);
  assert.equal(dataOf({ spec: { data: { values: rows.map(({ n }) => ({ [`k${n}`]: n })) } } }), null);
  const chart = (type: string, series: number, categories: number) =>
    chartOf({ plain: { type, categories: Array.from({ length: categories }, String), series: Array.from({ length: series }, () => ({ name: "s", values: Array.from({ length: categories }, () => 1) })) } });
  assert.ok(pictureOf(chart("bar", 1, 5_000) as NonNullable<ReturnType<typeof chart>>, WIDE).shapes.length > 5_000);
  assert.deepEqual([chart("bar", 1, 5_001), chart("bar", 101, 1), chart("line", 50, 500), chart("pie", 1, 201)], [null, null, null, null]);
  const points = Array.from({ length: 20_001 }, (_, n) => [n, n]);
  assert.equal(chartOf({ plain: { type: "scatter", series: [{ name: "s", points }] } }), null);
});

/** A generator of numbers below *most* that gives the same ones each time. */
function dice(seed: number): (most: number) => number {
  return (most) => {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
    return seed % most;
  };
}

test("no payload makes the page fail: it is drawn, or stays text", () => {
  const roll = dice(25);
  const leaves: readonly unknown[] = [null, true, 0, -1, 1e308, 5e-324, 1e99, "", "a", "=1", "\ud800", "2026-01-01", "x".repeat(2_000), {}, [], [[]], { toString: 1, toJSON: 1 }, "NaN"];
  const any = (): unknown => leaves[roll(leaves.length)];
  const mostly = (good: unknown): unknown => (roll(8) ? good : any());
  const list = (most: number, each: (at: number) => unknown): unknown => mostly(Array.from({ length: roll(most) }, (_, at) => each(at)));
  const objectOf = (keys: readonly string[]): object => Object.fromEntries(keys.filter(() => roll(3)).map((key) => [key, any()]));
  let drawn = 0;
  for (let turn = 0; turn < 3_000; turn += 1) {
    const names = [...ODD, "a", "b"];
    const columns = list(5, () => mostly({ key: mostly(names[roll(names.length)]), label: mostly("L"), format: mostly(["number", "date", "datetime", "percent", "currency:EUR", "currency", ":", ...ODD][roll(12)]), align: any() }));
    const table = tableOf(received({ columns, rows: list(6, () => mostly(objectOf(names))) }));
    if (table) assert.doesNotMatch(used(table), /native code/);
    const count = roll(5);
    const series = list(4, () => mostly({ name: mostly("s"), values: roll(9) ? Array.from({ length: count }, () => mostly([1, -2.5, null, 1e99, 5e-324][roll(5)])) : any(), points: list(4, () => mostly([roll(9), -roll(9)])) }));
    const type = mostly(["bar", "line", "area", "pie", "scatter"][roll(5)]);
    const chart = chartOf(received({ plain: mostly({ type, title: any(), x: any(), y: any(), stacked: any(), horizontal: mostly(true), categories: roll(9) ? Array.from({ length: count }, (_, at) => mostly(`c${at}`)) : any(), series }) }));
    dataOf(received({ spec: mostly({ data: mostly({ values: list(4, any) }) }) }));
    if (!chart) continue;
    drawn += 1;
    used(tableFrom(chart, WORDS));
    for (const { is } of pictureOf(chart, { ...WIDE, hidden: new Set([roll(4)]) }).shapes) assert.doesNotMatch(JSON.stringify(is), /NaN|Infinity|null/);
  }
  assert.ok(drawn > 200, String(drawn));
});

test("what cannot be seen before it does not hide a formula, as in the files of the server", () => {
  const cells = JSON.parse(readFileSync(join(GOLDEN, "csv_cells.json"), "utf8")) as readonly { readonly text: string; readonly cell: string }[];
  for (const { text, cell } of cells) assert.equal(inert(text), cell);
});
