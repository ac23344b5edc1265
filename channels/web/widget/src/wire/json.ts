/** JSON whose numbers stay as they were written: 12345678901234567890 and 1.0 are no others than those that run. */

type Reviver = (key: string, value: unknown, context: { readonly source?: string }) => unknown;
const parse = JSON.parse as (text: string, reviver?: Reviver) => unknown;
const { rawJSON, isRawJSON } = JSON as { rawJSON?: (source: string) => unknown; isRawJSON?: (value: unknown) => boolean };

/** Keep a number that JavaScript would write otherwise as its source; `JSON.stringify` gives that back. */
const keep: Reviver = (_key, value, { source }) =>
  rawJSON && typeof value === "number" && source !== undefined && String(value) !== source ? rawJSON(source) : value;

/** Return a whole number that JavaScript would round as its text. */
const spell: Reviver = (_key, value, { source = "" }) =>
  typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(source) ? source : value;

/** Return whether *value* is a number that is kept as its source. */
export function isExact(value: unknown): boolean {
  return isRawJSON?.(value) ?? false;
}

/** Parse what a person wrote; throws what is not JSON, and what this browser could not send as it was written. */
export function parseExact(text: string): unknown {
  if (rawJSON) return parse(text, keep);
  const value = parse(text);
  if (doubtIn(value) === "lost") throw new RangeError(text);
  return value;
}

/** Parse a frame: within `arguments` numbers stay as the server wrote them; long ones of a render's payload become text. */
export function parseFrame(text: string): Record<string, unknown> {
  if (rawJSON && text.includes('"payload"') && /\d{16}/.test(text)) return parse(text, spell) as Record<string, unknown>;
  if (!rawJSON || !text.includes('"arguments"')) return JSON.parse(text) as Record<string, unknown>;
  const kept: unknown[] = [];
  parse(text, (key, value, context) => {
    const exact = keep(key, value, context);
    if (key === "arguments") kept.push(exact);
    return exact;
  });
  return parse(text, (key, value) => (key === "arguments" ? kept.shift() : value)) as Record<string, unknown>;
}

/** Return whether numbers in *value* may be shown rounded, or are too long to be sent back: only where the browser cannot keep them. */
export function doubtIn(value: unknown): "lost" | "rounded" | null {
  const numbers = rawJSON ? [] : numbersIn(value);
  if (numbers.some((each) => Math.abs(each) > Number.MAX_SAFE_INTEGER)) return "lost";
  return numbers.length ? "rounded" : null;
}

function numbersIn(value: unknown): readonly number[] {
  if (typeof value === "number") return [value];
  return value !== null && typeof value === "object" ? Object.values(value).flatMap(numbersIn) : [];
}
