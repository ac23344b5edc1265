/** Cells as text for the reader's locale, their order, and what is copied and saved of them: pure. */

import type { Cell, Column, DataTable, Row } from "./payload.js";

export type Write = (value: Cell) => string;

const MOST_DECIMALS = 6;
const DATE = /^\d{4}-\d\d-\d\d/;
const ZONE = /(Z|[+-]\d\d:?\d\d)$/i;

/** Return what writes the cells of *column*; one format for all of its *values*, so that decimals are under each other. */
export function writer({ format = "" }: Column, values: readonly Cell[], words: { readonly yes: string; readonly no: string }, locale?: string): Write {
  const number = numbers(format, values, locale);
  const date = dates(format, locale);
  return (value) => {
    if (value === null || value === undefined) return "";
    if (typeof value === "boolean") return value ? words.yes : words.no;
    if (typeof value === "number") return number(value);
    return typeof value === "string" ? date(value) : textOf(value);
  };
}

const NUMERIC = /^(?:(number(?=\.)|integer|percent)|currency:([A-Z]{3}))(?:\.(\d))?$/;

/** Return what a *format* with a sign or with fixed decimals asks for, null for others. */
export function amountOptions(format = ""): Intl.NumberFormatOptions | null {
  const [all, kind, currency, fixed = kind === "integer" ? 0 : ""] = NUMERIC.exec(format) ?? [];
  if (!all) return null;
  return {
    ...(currency ? { style: "currency", currency } : kind === "percent" && { style: kind, maximumFractionDigits: 2 }),
    ...(fixed !== "" && { minimumFractionDigits: +fixed, maximumFractionDigits: +fixed }),
  };
}

function numbers(format: string, values: readonly Cell[], locale?: string): (value: number) => string {
  const decimals = values.reduce<number>((most, each) => (typeof each === "number" ? Math.min(MOST_DECIMALS, Math.max(most, decimalsOf(each))) : most), 0);
  const options = format === "number" ? { minimumFractionDigits: decimals > 2 ? 0 : decimals, maximumFractionDigits: decimals } : amountOptions(format);
  if (!options) return String; // it may be an id or a year
  const { format: write } = new Intl.NumberFormat(locale, options);
  return (value) => (format === "number" && value && Math.abs(value) < 1e-4 ? value.toLocaleString(locale, { maximumSignificantDigits: 6 }) : write(value));
}

function decimalsOf(value: number): number {
  return /\.(\d+)$/.exec(String(Number(value.toPrecision(12))))?.[1]?.length ?? 0;
}

/** A time without a zone is written as it is; one with a zone, in the reader's own. */
function dates(format: string, locale?: string): (value: string) => string {
  if (format !== "date" && format !== "datetime") return String;
  const isDate = format === "date";
  const make = (timeZone?: "UTC"): Intl.DateTimeFormat =>
    new Intl.DateTimeFormat(locale, { dateStyle: "medium", ...(!isDate && { timeStyle: "short" }), ...(timeZone && { timeZone }) });
  const [utc, local] = [make("UTC"), make()];
  return (value) => {
    if (!DATE.test(value)) return value;
    const isZoned = !isDate && value.length > 10 && ZONE.test(value);
    const at = Date.parse(isDate ? value.slice(0, 10) : isZoned || value.length === 10 ? value : `${value.replace(" ", "T")}Z`);
    return Number.isNaN(at) ? value : (isZoned ? local : utc).format(at);
  };
}

/** Return *value* as a chart writes it: in its *format*, else exact where it is a whole number, else with six digits. */
export function brief(value: number, locale?: string, format?: string): string {
  return value.toLocaleString(locale, amountOptions(format) ?? (Number.isInteger(value) ? {} : { maximumSignificantDigits: Math.max(6, String(Math.trunc(value)).length + 2) }));
}

/** Return *rows* in the order of the column *key*: numbers before texts, what is empty last in both directions. */
export function sorted(rows: readonly Row[], key: string, isDescending: boolean, locale?: string): readonly Row[] {
  const { compare } = new Intl.Collator(locale, { numeric: true });
  const rank = (value: Cell): number => (value === null || value === undefined || value === "" ? 2 : typeof value === "string" ? 1 : 0);
  const order = (a: Cell, b: Cell): number => (typeof a === "number" && typeof b === "number" ? a - b : compare(textOf(a), textOf(b)));
  return [...rows].sort(({ [key]: a }, { [key]: b }) => {
    const [ranked, other] = [rank(a), rank(b)];
    if (ranked === 2 || other === 2) return ranked - other;
    return (ranked - other || order(a, b)) * (isDescending ? -1 : 1);
  });
}

/** Return whether the cells of *column* are written to the right. */
export function alignOf({ key, align, format = "" }: Column, rows: readonly Row[]): "left" | "center" | "right" {
  if (align) return align;
  if (/^(number|integer|percent|currency)/.test(format)) return "right";
  const found = rows.map((row) => row[key]).filter((each) => each !== null && each !== undefined);
  return found.length && found.every((each) => typeof each === "number") ? "right" : "left";
}

// OWASP, CSV injection: a formula begins with one of four signs, in any width, also after what is blank or cannot be seen.
const UNSEEN = /^[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\u2800]+/u;
const CONTROL = /^[\t\r\n\0]/;
const NUMBER = /^[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?$/i;

function textOf(value: Cell): string {
  if (typeof value !== "object" || value === null) return value === null || value === undefined ? "" : String(value);
  try {
    return JSON.stringify(value);
  } catch {
    return "…"; // too deep
  }
}

function startsFormula(text: string): boolean {
  const sign = text.replace(UNSEEN, "").slice(0, 1).normalize("NFKC");
  return sign !== "" && "=+-@".includes(sign);
}

/** Return *value* as a program of tables may open it: no text is taken for a formula. */
export function inert(value: Cell): string {
  const text = textOf(value);
  return (CONTROL.test(text) || startsFormula(text)) && !NUMBER.test(text) ? `'${text}` : text;
}

/** Return *table* as CSV, with the mark of UTF-8 before it. */
export function csvOf(table: DataTable): string {
  return `\ufeff${linesOf(table).map((line) => line.map((each) => `"${each.replaceAll('"', '""')}"`).join(",") + "\r\n").join("")}`;
}

/** Return *table* as lines with tabs between the cells. */
export function tsvOf(table: DataTable): string {
  return linesOf(table).map((line) => line.map((each) => each.replace(/[\t\r\n]+/g, " ")).join("\t")).join("\n");
}

/** Return *table* as the HTML that other programs are given to paste: it is never parsed here. */
export function htmlOf(table: DataTable): string {
  const cells = (line: readonly string[], tag: string): string => `<tr>${line.map((each) => `<${tag}>${escaped(each)}</${tag}>`).join("")}</tr>`;
  return `<table>${linesOf(table).map((line, at) => cells(line, at ? "td" : "th")).join("")}</table>`;
}

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
}

function linesOf({ columns, rows }: DataTable): readonly (readonly string[])[] {
  return [columns.map(({ label }) => inert(label)), ...rows.map((row) => columns.map(({ key }) => inert(row[key])))];
}
