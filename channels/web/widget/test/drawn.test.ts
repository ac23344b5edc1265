import assert from "node:assert/strict";
import { test } from "node:test";
import { alignOf, brief, csvOf, htmlOf, inert, sorted, tsvOf, writer } from "../src/drawn/format.js";
import { pictureOf, runs, shortened, widthOf, type Picture } from "../src/drawn/layout.js";
import { chartOf, dataOf, tableFrom, tableOf, type Column, type PlainChart } from "../src/drawn/payload.js";
import { extent, nice, shares, stack } from "../src/drawn/scale.js";

const WORDS = { yes: "yes", no: "no", category: "Category", series: "Series" };
const plain = (given: object): PlainChart => chartOf({ plain: { type: "bar", categories: ["a", "b"], ...given } }) as PlainChart;
const written = (column: Partial<Column>, ...values: unknown[]): string[] => values.map(writer({ key: "k", label: "K", ...column }, values, WORDS, "en-US"));

test("ticks are round numbers around the values", () => {
  assert.deepEqual(nice(0, 19, 5).ticks, [0, 5, 10, 15, 20]);
  assert.deepEqual(nice(-6, 19, 5).ticks, [-10, -5, 0, 5, 10, 15, 20]);
  assert.deepEqual(nice(0, 1, 5).ticks, [0, 0.2, 0.4, 0.6, 0.8, 1]);
  assert.deepEqual(nice(0, 0.3, 5).ticks, [0, 0.1, 0.2, 0.3]);
  assert.deepEqual(nice(0, 0, 5).ticks, [0, 0.2, 0.4, 0.6, 0.8, 1]);
  for (const [low, high] of [[-7, -7], [3, 3], [0, 1e300], [1e-300, 2e-300], [-1e15, 1e15], [999.9, 1000.1]] as const) {
    const { low: from, high: to, ticks } = nice(low, high, 5);
    assert.ok(from <= low && to >= high && ticks.length >= 2 && ticks.length < 15 && ticks.every(Number.isFinite), `${low} ${high}: ${ticks.join()}`);
  }
});

test("stacks grow upwards and downwards from zero, and a gap adds nothing", () => {
  assert.deepEqual(stack([[1, -2, null], [3, -4, 5], [-1, 6, null]]), [[[0, 1], [0, -2], [0, 0]], [[1, 4], [-2, -6], [0, 5]], [[0, -1], [0, 6], [5, 5]]]);
});

test("bars begin at zero; lines do unless zero is far away", () => {
  assert.deepEqual([extent([5, 9], true), extent([5, 9], false), extent([995, 999], false), extent([-999, -995], false)], [[0, 9], [0, 9], [995, 999], [-999, -995]]);
  assert.deepEqual([extent([], true), extent([7, 7], false)], [[0, 1], [0, 7]]);
});

test("shares of a pie are of what is above zero", () => {
  assert.deepEqual([shares([1, 3, null, -4]), shares([0, 0])], [[0.25, 0.75, 0, 0], [0, 0]]);
});

test("a line breaks at each gap", () => {
  assert.deepEqual([runs([1, 2, null, 3], false), runs([null, null], false), runs([1, null, 3], true)], [[[0, 1], [3]], [], [[0, 1, 2]]]);
});

test("cells are written for the reader, with decimals under each other", () => {
  assert.deepEqual(written({ format: "number" }, 1234.5, 2, -0.25, null), ["1,234.50", "2.00", "-0.25", ""]);
  assert.deepEqual(written({ format: "number" }, 0.0000012345678, 0), ["0.00000123457", "0"]);
  assert.deepEqual(written({ format: "integer" }, 1234567, 2.6), ["1,234,567", "3"]);
  assert.deepEqual(written({ format: "percent" }, 0.12, 1.055), ["12%", "105.5%"]);
  assert.deepEqual(written({ format: "currency:EUR" }, 1234.5), ["€1,234.50"]);
  assert.deepEqual(written({ format: "currency:NO" }, 3.5), ["3.5"]);
  assert.deepEqual(written({}, 2026, 1234567.5, true, false, "x", { a: 1 }, [1]), ["2026", "1234567.5", "yes", "no", "x", '{"a":1}', "[1]"]);
  assert.deepEqual(written({ format: "integer" }, "12345678901234567890"), ["12345678901234567890"]);
});

test("a date without a time is that day everywhere", () => {
  const [zone] = [process.env["TZ"]];
  process.env["TZ"] = "America/New_York";
  assert.deepEqual(written({ format: "date" }, "2026-02-01", "2026-02-01T23:30:00Z", "soon"), ["Feb 1, 2026", "Feb 1, 2026", "soon"]);
  assert.deepEqual(written({ format: "datetime" }, "2026-02-01T08:00:00", "2026-02-01 08:00").map((each) => each.replace(/\s/g, " ")), ["Feb 1, 2026, 8:00 AM", "Feb 1, 2026, 8:00 AM"]);
  if (zone === undefined) delete process.env["TZ"];
  else process.env["TZ"] = zone;
});

test("rows are sorted by value, and what is empty comes last in both directions", () => {
  const rows = [10, "b", 9, null, "a10", "a9", "", 1e3].map((v) => ({ v }));
  assert.deepEqual(sorted(rows, "v", false, "en").map(({ v }) => v), [9, 10, 1e3, "a9", "a10", "b", null, ""]);
  assert.deepEqual(sorted(rows, "v", true, "en").map(({ v }) => v), ["b", "a10", "a9", 1e3, 10, 9, null, ""]);
});

test("numbers go to the right, unless the column says otherwise", () => {
  const column = { key: "v", label: "V" };
  assert.equal(alignOf(column, [{ v: 1 }, { v: null }, {}]), "right");
  assert.equal(alignOf(column, [{ v: 1 }, { v: "x" }]), "left");
  assert.equal(alignOf({ ...column, align: "center" }, [{ v: 1 }]), "center");
  assert.equal(alignOf(column, []), "left");
});

test("nothing that is copied or saved is taken for a formula", () => {
  const bad = ["=1+1", "+A1", "-A1", "@SUM(1)", "\t=1", "\r=1", "\n=1", "\0=1", " =1", "\ufeff=1", "＝1", "＋1", "－1", "＠x", "-", "+", "=", "1e5=", "-1 -1"];
  for (const text of bad.filter((each) => each !== "1e5=")) assert.equal(inert(text), `'${text}`);
  for (const text of ["-1.5", "+1", ".5", "-1e-5", "1=1", "a@b", "", "2026-01-01"]) assert.equal(inert(text), text);
  const table = { columns: [{ key: "a", label: "=A" }, { key: "b", label: 'B "q"' }], rows: [{ a: "=cmd|' /C calc'!A0", b: "x,\n<b>" }, { a: -3, b: null }] };
  assert.equal(csvOf(table), `\ufeff"'=A","B ""q"""\r\n"'=cmd|' /C calc'!A0","x,\n<b>"\r\n"-3",""\r\n`);
  assert.equal(tsvOf(table), `'=A\tB "q"\n'=cmd|' /C calc'!A0\tx, <b>\n-3\t`);
  assert.ok(!/<b>/.test(htmlOf(table)));
  assert.match(htmlOf(table), /^<table><tr><th>&#39;=A<\/th>[^]*&#60;b&#62;/);
});

test("a payload that is no table or chart is none", () => {
  const column = { key: "a", label: "A" };
  for (const bad of [{}, { columns: [], rows: [] }, { columns: [column], rows: [1] }, { columns: ["a"], rows: [] }, { columns: [column], rows: {} }, { columns: [{ key: 1, label: "A" }], rows: [] }]) assert.equal(tableOf(bad), null);
  assert.deepEqual(tableOf({ columns: [column], rows: [{}] }), { columns: [column], rows: [Object.create(null)] });
  const series = [{ name: "s", values: [1, null] }];
  for (const bad of [null, "x", {}, { type: "donut", series }, { series: [] }, { series: [{ name: "s", values: [1] }] }, { series: [{ name: "s", values: ["1", 2] }] }, { series: [{ name: "s", values: [1e100, 1] }] }, { series: [null] }, { type: "scatter", series: [{ name: "s", points: [[1]] }] }])
    assert.equal(chartOf({ plain: typeof bad === "object" && bad ? { type: "bar", categories: ["a", "b"], ...bad } : bad }), null, JSON.stringify(bad));
  assert.deepEqual(plain({ series }).series, [{ name: "s", values: [1, null], points: [] }]);
});

test("the data of a chart is a table of its categories, its points, or the rows of its specification", () => {
  const { columns, rows } = tableFrom(plain({ x: "Day", series: [{ name: "Tea", values: [1, null] }, { name: "c", values: [3, 4] }] }), WORDS);
  assert.deepEqual(columns.map(({ label }) => label), ["Day", "Tea", "c"]);
  assert.deepEqual(rows.map((row) => columns.map(({ key }) => row[key])), [["a", 1, 3], ["b", null, 4]]);
  const points = tableFrom(plain({ type: "scatter", y: "kg", series: [{ name: "cats", points: [[1, 2]] }] }), WORDS);
  assert.deepEqual([points.columns.map(({ label }) => label), points.rows], [["x", "kg"], [{ s: "cats", x: 1, y: 2 }]]);
  assert.deepEqual(dataOf({ spec: { data: { values: [{ a: 1 }, { b: 2 }, 3] } } })?.columns.map(({ key }) => key), ["a", "b", "data"]);
  assert.deepEqual([dataOf({}), dataOf({ spec: { data: { url: "x" } } })], [null, null]);
});

const tags = ({ shapes }: Picture, name: string): readonly Readonly<Record<string, string | number>>[] => shapes.filter(({ is }) => String(is["class"]).split(" ")[0] === name).map(({ is }) => is);
const WIDE = { width: 600, hidden: new Set<number>(), locale: "en-US" };

test("bars are as long as their values, from zero to both sides", () => {
  const two = tags(pictureOf(plain({ series: [{ name: "s", values: [10, -5] }] }), WIDE), "bar");
  assert.deepEqual(two.map(({ y, height }) => [y, height]), [[10, 160], [170, 80]]);
  const lying = tags(pictureOf(plain({ horizontal: true, series: [{ name: "s", values: [10, 5] }] }), WIDE), "bar");
  assert.ok(Math.abs(Number(lying[0]?.["width"]) - 2 * Number(lying[1]?.["width"])) < 0.2);
  assert.equal(lying[0]?.["x"], lying[1]?.["x"]);
});

test("what is hidden is not drawn, and the scale follows what is left", () => {
  const chart = plain({ series: [{ name: "s", values: [100, 100] }, { name: "t", values: [1, 2] }] });
  const shown = pictureOf(chart, { ...WIDE, hidden: new Set([0]) });
  assert.deepEqual(tags(shown, "bar").map((each) => each["class"]), ["bar c1", "bar c1"]);
  assert.equal(tags(shown, "bar")[1]?.["height"], 240);
  assert.deepEqual(shown.spots.map(({ values }) => values), [[{ series: 1, text: "1" }], [{ series: 1, text: "2" }]]);
  assert.equal(tags(pictureOf(chart, { ...WIDE, hidden: new Set([0, 1]) }), "bar").length, 0);
});

test("a pie of one slice is a circle, and a hidden slice has no share", () => {
  const chart = plain({ type: "pie", series: [{ name: "n", values: [3, 1] }] });
  assert.deepEqual(pictureOf(chart, WIDE).spots.map(({ values }) => values[0]?.text), ["3 (75%)", "1 (25%)"]);
  const one = pictureOf(chart, { ...WIDE, hidden: new Set([1]) });
  assert.deepEqual(one.shapes.map(({ tag }) => tag), ["circle", "text"]);
  assert.deepEqual(one.spots.map(({ values }) => values[0]?.text), ["3 (100%)"]);
});

test("labels of many or long categories are thinned, turned and shortened, and say in full what was cut", () => {
  const draw = (categories: readonly string[], width = 600): readonly Picture["shapes"][number][] =>
    pictureOf(plain({ categories, series: [{ name: "s", values: categories.map((_, at) => at) }] }), { ...WIDE, width }).shapes.filter(({ tag, text, is }) => tag === "text" && is["y"] !== undefined && categories.some((each) => each === text || text?.endsWith("…")));
  const many = draw(Array.from({ length: 200 }, (_, at) => `day ${at}`));
  assert.ok(many.length > 5 && many.length < 20, String(many.length));
  const turned = draw(["a department with a long name", "another department with one", "third", "fourth", "fifth", "sixth", "seventh", "eighth"]);
  assert.ok(turned.every(({ is }) => String(is["transform"]).startsWith("rotate(-42")));
  assert.ok(turned[0]?.text?.endsWith("…") && turned[0].full === "a department with a long name");
  assert.ok(widthOf(shortened("w".repeat(500), 100)) <= 100);
  assert.equal(shortened("👩‍👩‍👧 short", 200), "👩‍👩‍👧 short");
});

test("names beside bars on their side are whole where there is room, with a title at their edge too", () => {
  const categories = ["Jan", "December"];
  for (const x of [undefined, "Month"]) {
    const { shapes } = pictureOf(plain({ horizontal: true, x, categories, series: [{ name: "s", values: [10, 5] }] }), WIDE);
    const names = shapes.filter(({ text, full }) => categories.includes(full ?? text ?? ""));
    assert.deepEqual(names.map(({ text }) => text), categories);
    const edge = shapes.find(({ text }) => text === "Month");
    for (const { is, text } of names) assert.ok(Number(is["x"]) - widthOf(text ?? "") > (edge ? Number(edge.is["x"]) + 6 : 0));
  }
});

test("a chart of thousands of bars on their side has an end", () => {
  const categories = Array.from({ length: 3_000 }, (_, at) => `name ${at}`);
  const { height, shapes } = pictureOf(plain({ horizontal: true, categories, series: [{ name: "s", values: categories.map((_, at) => at) }] }), WIDE);
  assert.ok(height < 3_200 && shapes.filter(({ text }) => text?.startsWith("name")).length < 220);
});

test("charts without numbers, or with one, are drawn all the same", () => {
  for (const type of ["bar", "line", "area", "pie", "scatter"]) {
    for (const [categories, values, points] of [[[], [], []], [["a"], [null], []], [["a"], [0], [[0, 0]]], [["a"], [1e99], [[1e99, -1e99]]], [["a"], [-1e-308], [[1, 1], [1, 1]]]] as const) {
      const picture = pictureOf(plain({ type, stacked: true, categories, series: [{ name: "s", values, points }, { name: "t", values, points }] }), WIDE);
      for (const { is } of picture.shapes) assert.doesNotMatch(JSON.stringify(is), /NaN|Infinity|null/, `${type} ${JSON.stringify(values)}`);
    }
  }
});

test("amounts are in the format of their axis", () => {
  assert.deepEqual([brief(0.1234, "en", "percent.1"), brief(0.12, "en", "percent.1"), brief(0.12345, "en", "percent"), brief(1234.5, "en", "currency:USD.0"), brief(2, "en", "currency:EUR"), brief(1.239, "en", "number.2"), brief(3.7, "en", "integer"), brief(1.25, "en", "nonsense")], ["12.3%", "12.0%", "12.35%", "$1,235", "€2.00", "1.24", "4", "1.25"]);
  const ticks = (format: string, values: number[]): readonly (string | undefined)[] => pictureOf(plain({ format, series: [{ name: "s", values }] }), WIDE).shapes.filter(({ is }) => is["text-anchor"] === "end").map(({ text }) => text);
  assert.deepEqual(ticks("percent.1", [0.1, 0.2]), ["0%", "5%", "10%", "15%", "20%"]);
  assert.deepEqual(ticks("percent", [0.01, 0.025]), ["0.0%", "0.5%", "1.0%", "1.5%", "2.0%", "2.5%"]);
  assert.deepEqual(ticks("currency:USD.2", [1, 2.5]), ["$0.0", "$0.5", "$1.0", "$1.5", "$2.0", "$2.5"]);
  assert.deepEqual(ticks("currency:USD", [1e6, 2e6]), ["$0", "$500K", "$1M", "$1.5M", "$2M"]);
  const { columns, rows } = tableFrom(plain({ format: "percent.1", series: [{ name: "s", values: [0.5, 0.123] }] }), WORDS);
  const column = columns[1] as (typeof columns)[number];
  assert.deepEqual([column.format, rows.map((row) => writer(column, [], { yes: "", no: "" }, "en")(row["0"]))], ["percent.1", ["50.0%", "12.3%"]]);
});

test("numbers in a chart are exact where they are whole, else short", () => {
  assert.deepEqual([brief(1234567, "en"), brief(3.3333333333, "en"), brief(1234567.891, "en"), brief(0, "en")], ["1,234,567", "3.33333", "1,234,567.89", "0"]);
});
