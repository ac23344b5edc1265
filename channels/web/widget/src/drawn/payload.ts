/** What a render of the kinds `table` and `chart` carries, read from a payload that any tool may have made. */

export type Align = "left" | "center" | "right";
export type Cell = unknown;
/** Of a table that was read here it has no prototype: a key that it lacks is undefined, `constructor` too. */
export type Row = Readonly<Record<string, Cell>>;

export interface Column {
  readonly key: string;
  readonly label: string;
  readonly align?: Align | undefined;
  readonly format?: string | undefined;
}

export interface DataTable {
  readonly columns: readonly Column[];
  readonly rows: readonly Row[];
}

export interface Series {
  readonly name: string;
  /** One for each category; null is a gap. */
  readonly values: readonly (number | null)[];
  /** Of a scatter chart, instead. */
  readonly points: readonly (readonly [number, number])[];
}

export interface PlainChart {
  readonly title?: string | undefined;
  readonly type: "bar" | "line" | "area" | "pie" | "scatter";
  readonly categories: readonly string[];
  readonly series: readonly Series[];
  readonly x?: string | undefined;
  readonly y?: string | undefined;
  readonly stacked: boolean;
  readonly horizontal: boolean;
  /** How amounts are written: `percent`, `currency:EUR`, `number`, `integer`, `percent.1` with one decimal. */
  readonly format?: string | undefined;
}

type Payload = Readonly<Record<string, unknown>>;

// What is larger is not what the server's own tools make, and would take a browser too long: it stays text.
const [MOST_COLUMNS, MOST_CELLS] = [200, 200_000];
const [MOST_SERIES, MOST_CATEGORIES, MOST_SLICES, MOST_MARKS] = [100, 5_000, 200, 20_000];
const TYPES: readonly unknown[] = ["bar", "line", "area", "pie", "scatter"] satisfies readonly PlainChart["type"][];
const ALIGNS: readonly unknown[] = ["left", "center", "right"] satisfies readonly Align[];

/** Return the table in *payload*, null when there is none. */
export function tableOf({ columns, rows }: Payload): DataTable | null {
  if (!isList(columns) || !isList(rows) || !columns.length || !columns.every(isObject) || !rows.every(isObject)) return null;
  const read = columns.map(columnOf);
  return read.some((each) => each === null) ? null : bounded(read as Column[], rows);
}

function columnOf({ key, label, align, format }: Payload): Column | null {
  if (typeof key !== "string" || typeof label !== "string") return null;
  return { key, label, ...(ALIGNS.includes(align) && { align: align as Align }), ...(typeof format === "string" && { format }) };
}

function bounded(columns: readonly Column[], rows: readonly Row[]): DataTable | null {
  if (columns.length > MOST_COLUMNS || columns.length * rows.length > MOST_CELLS) return null;
  return { columns, rows: rows.map((each) => Object.assign(Object.create(null) as Row, each)) };
}

/** Return the plain chart in *payload*, null when there is none. */
export function chartOf({ plain }: Payload): PlainChart | null {
  if (!isObject(plain) || !TYPES.includes(plain["type"]) || !isList(plain["series"])) return null;
  const { categories = [], series, x, y, stacked, horizontal, format } = plain;
  const isScatter = plain["type"] === "scatter";
  if (!isList(categories) || !categories.every(isText) || categories.length > (plain["type"] === "pie" ? MOST_SLICES : MOST_CATEGORIES)) return null;
  if (!series.length || series.length > MOST_SERIES || !series.every(isObject)) return null;
  const read = series.map(({ name, values = [], points = [] }): Series | null => {
    if (!isText(name) || !isList(values) || !isList(points) || (!isScatter && values.length !== categories.length)) return null;
    const isFit = values.every((each) => each === null || isDrawable(each)) && points.every((each) => isList(each) && each.length === 2 && each.every(isDrawable));
    return isFit ? ({ name, values, points } as Series) : null;
  });
  if (read.includes(null) || read.reduce((sum, each) => sum + marksOf(each as Series), 0) > MOST_MARKS) return null;
  const type = plain["type"] as PlainChart["type"];
  const named = (given: unknown): string | undefined => (typeof given === "string" && given ? given : undefined);
  return { type, title: named(plain["title"]), categories, series: read as Series[], x: named(x), y: named(y), stacked: stacked === true, horizontal: horizontal === true, format: named(format) };
}

/** Return the data of the specification in *payload* as a table, null when there is none inline. */
export function dataOf({ spec }: Payload): DataTable | null {
  const data = isObject(spec) ? spec["data"] : null;
  const rows = isObject(data) && isList(data["values"]) ? data["values"].map((each) => (isObject(each) ? each : { data: each })) : [];
  const keys = new Set(rows.flatMap(Object.keys));
  return keys.size ? bounded([...keys].map((key) => ({ key, label: key })), rows) : null;
}

/** Return the numbers of *chart* as a table: a row for each category, or for each point. */
export function tableFrom({ type, categories, series, x, y, format = "number" }: PlainChart, words: { readonly category: string; readonly series: string }): DataTable {
  if (type === "scatter") {
    const several = series.length > 1;
    const rows = series.flatMap(({ name, points }) => points.map((each) => ({ s: name, x: each[0], y: each[1] })));
    const columns: Column[] = [{ key: "x", label: x ?? "x", format: "number" }, { key: "y", label: y ?? "y", format }];
    return { columns: several ? [{ key: "s", label: words.series }, ...columns] : columns, rows };
  }
  const columns = series.map(({ name }, index) => ({ key: `${index}`, label: name || y || "", format }));
  const rows = categories.map((category, at) => ({ c: category, ...Object.fromEntries(series.map(({ values }, index) => [`${index}`, values[at]])) }));
  return { columns: [{ key: "c", label: x ?? words.category }, ...columns], rows };
}

function marksOf({ values, points }: Series): number {
  return points.length + values.filter((each) => each !== null).length;
}

/** Return what the *text* of a chart says before its values: its name, its marks and its fields. */
export function headOf(text: string): string {
  return (text.split("\n\n", 1)[0] ?? "").replace(/:\n/, ". ").replace(/:$/, "").slice(0, 2_000);
}

/** Return the name at the head of the *text* of a chart, empty where there is none. */
export function nameOf(text: string): string {
  return /^(.{1,200}):\n/.exec(text)?.[1] ?? "";
}

/** Sums of larger ones might be no numbers any more. */
function isDrawable(value: unknown): boolean {
  return typeof value === "number" && Math.abs(value) < 1e100;
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}

function isList(value: unknown): value is readonly unknown[] {
  return Array.isArray(value);
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
