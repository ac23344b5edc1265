import assert from "node:assert/strict";
import { test } from "node:test";
import { JSDOM } from "jsdom";
import { editor, type Editor } from "../src/cards/form.js";
import { shapesOf, type Json } from "../src/cards/schema.js";
import { whole } from "../src/cards/words.js";
import { parseExact } from "../src/wire/json.js";
import { STRINGS } from "../src/words/strings.js";

const { window } = new JSDOM("<!doctype html><body>");
Object.assign(globalThis, { document: window.document, AbortController: window.AbortController, AbortSignal: window.AbortSignal, Node: window.Node });

type Input = HTMLInputElement;

function form(properties: Json, given: Json, required: readonly string[] = [], more: Json = {}): Editor {
  const made = editor("apr_1", { type: "object", properties, required, ...more }, given, whole(STRINGS));
  window.document.body.replaceChildren(made.node);
  return made;
}
/** Return the field with the *label*, and what is said at it. */
function field({ node }: Editor, label: string): { input: Input; error: () => string } {
  const labels = [...node.querySelectorAll("label")];
  const found = labels.find((each) => each.firstChild?.textContent === label);
  assert.ok(found, `no field ${label} among ${labels.map((each) => each.textContent).join(", ")}`);
  const input = node.querySelector(`#${found.htmlFor}`) as Input;
  return { input, error: () => node.querySelector(`#e-${found.htmlFor.slice(2)}`)?.textContent ?? "" };
}

const EACH: readonly (readonly [string, Json, unknown, string, string, unknown])[] = [
  // what, schema, given, type of the input, what is written, what is read
  ["a short text", { type: "string", maxLength: 20 }, "a", "text", "b", "b"],
  ["a text without a bound", { type: "string" }, "a", "text", "b", "b"],
  ["a long text", { type: "string", maxLength: 500 }, "a", "textarea", "b\nc", "b\nc"],
  ["a text of several lines", { type: "string" }, "a\nb", "textarea", "b\nc", "b\nc"],
  ["a choice", { type: "string", enum: ["one", "two"] }, "one", "select-one", "1", "two"],
  ["a choice with names", { oneOf: [{ const: 1, title: "First" }, { const: 2, title: "Second" }] }, 1, "select-one", "1", 2],
  ["a whole number", { type: "integer", minimum: 1, maximum: 9 }, 5, "number", "7", 7],
  ["a number", { type: "number" }, 0.5, "number", "12.5", 12.5],
  ["a date", { type: "string", format: "date" }, "2026-01-05", "date", "2026-02-01", "2026-02-01"],
  ["a time of day", { type: "string", format: "time" }, "09:00", "time", "10:30", "10:30"],
  ["a time", { type: "string", format: "date-time" }, "2026-01-05T09:00:00Z", "datetime-local", "2026-02-01T10:30", new Date("2026-02-01T10:30").toISOString().replace(".000Z", "Z")],
  ["an address of mail", { type: "string", format: "email" }, "a@b.example", "email", "c@d.example", "c@d.example"],
  ["lines", { type: "array", items: { type: "string" } }, ["a"], "textarea", "a\n\nb", ["a", "b"]],
  ["lines of numbers", { type: "array", items: { type: "integer" } }, [1], "textarea", "1\n22", [1, 22]],
  ["a list of objects", { type: "array", items: { type: "object" } }, [{ a: 1 }], "textarea", '[{"a": 2}]', [{ a: 2 }]],
  ["what may be null", { anyOf: [{ type: "integer" }, { type: "null" }] }, null, "number", "3", 3],
  ["what is said elsewhere", { $ref: "#/$defs/size" }, "S", "select-one", "1", "M"],
  ["a value of another kind", { type: "integer" }, "five", "textarea", '"six"', "six"],
];
const DEFS = { $defs: { size: { enum: ["S", "M"], title: "Size" } } };

test("each kind has its own field, which reads what is written in it, and what is untouched goes back as it was", () => {
  for (const [what, schema, given, type, written, wanted] of EACH) {
    const made = form({ x: { title: "The x", ...schema } }, { x: given, more: 1 }, [], DEFS);
    const { input } = field(made, "The x");
    assert.equal(input.type, type, what);
    assert.equal(made.read()?.["x"], given, what);
    input.value = written;
    assert.deepEqual(made.read(), { x: wanted, more: 1 }, what);
  }
});

test("of several choices each is a check mark, in a group of their name, and their number is checked", () => {
  const items = { anyOf: [{ const: "ham", title: "Ham" }, { const: "egg", title: "Egg" }, { const: "tea", title: "Tea" }] };
  const made = form({ food: { type: "array", title: "Your food", minItems: 1, maxItems: 2, items }, plain: { type: "array", items: { enum: ["a", "b"] } } }, { food: [] }, ["food"]);
  const [food, plain] = [...made.node.querySelectorAll("fieldset")];
  assert.equal(food?.querySelector("legend")?.textContent, "Your food");
  assert.deepEqual([...(food?.querySelectorAll("label") ?? [])].map((each) => each.textContent), ["Ham (ham)", "Egg (egg)", "Tea (tea)"]);
  const boxes = [...(food?.querySelectorAll("input") ?? [])];
  const tick = (...at: readonly number[]): void => boxes.forEach((box, index) => void (box.checked = at.includes(index)));
  tick(0, 1, 2);
  assert.equal(made.read(), null);
  assert.equal(food?.parentElement?.querySelector(".wrong")?.textContent, "At most 2.");
  assert.equal(window.document.activeElement, food);
  tick(2, 1);
  assert.deepEqual(made.read(), { food: ["egg", "tea"] });
  tick();
  assert.deepEqual(made.read(), { food: [] }); // as it came: what is untouched is the server's to refuse
  tick(0);
  for (const box of plain?.querySelectorAll("input") ?? []) box.checked = true;
  assert.deepEqual(made.read(), { food: ["ham"], plain: ["a", "b"] });
});

test("yes or no is a check mark, which stays left out until it is touched", () => {
  const made = form({ urgent: { type: "boolean" }, gift: { type: "boolean" } }, { gift: true });
  assert.deepEqual(made.read(), { gift: true });
  field(made, "Urgent").input.checked = true;
  field(made, "Gift").input.checked = false;
  assert.deepEqual(made.read(), { gift: false, urgent: true });
});

test("an object is a group, with fields in their own right", () => {
  const to = { type: "object", title: "Payee", properties: { iban: { type: "string", maxLength: 30 }, note: { type: "string" } }, required: ["iban"] };
  const made = form({ to }, { to: { iban: "CH1", kept: [1] } });
  assert.equal(made.node.querySelector("legend")?.textContent, "Payee");
  field(made, "Iban").input.value = "CH2";
  assert.deepEqual(made.read(), { to: { iban: "CH2", kept: [1] } });
  const left = form({ to }, {});
  assert.deepEqual(left.read(), {}, "an optional group that no one touches is left out, whatever it requires inside");
  field(left, "Note").input.value = "x";
  assert.equal(left.read(), null);
  assert.equal(field(left, "Iban").error(), "This has to be filled in.");
});

test("what is wrong is said at its field before anything is sent", () => {
  const properties = {
    count: { type: "integer", minimum: 2, maximum: 9 },
    rate: { type: "number", exclusiveMinimum: 0 },
    name: { type: "string", minLength: 2, maxLength: 4 },
    tags: { type: "array", items: { type: "integer" } },
    size: { enum: ["S", "M"] },
  };
  const made = form(properties, { count: 5, rate: 1, name: "abc", tags: [1] }, ["count", "size"]);
  const tries: readonly (readonly [string, string, string])[] = [
    ["Count", "1", "At least 2."], ["Count", "10", "At most 9."], ["Count", "2.5", "Write a whole number."], ["Count", "", "This has to be filled in."],
    ["Rate", "0", "More than 0."], ["Name", "a", "At least 2 characters."], ["Name", "abcde", "At most 4 characters."], ["Tags", "1\nx", "Write a whole number."],
  ];
  for (const [label, text, wanted] of tries) {
    const { input, error } = field(made, label);
    const before = input.value;
    input.value = text;
    assert.equal(made.read(), null);
    assert.equal(error(), wanted);
    assert.equal(input.getAttribute("aria-invalid"), "true");
    input.value = before;
  }
  assert.equal(field(made, "Size").error(), "This has to be filled in.");
  assert.equal(made.read(), null);
  field(made, "Size").input.value = "0";
  assert.deepEqual(made.read(), { count: 5, rate: 1, name: "abc", tags: [1], size: "S" });
});

test("what the server says is at its field, however deep; what is about none comes back", () => {
  const item = { type: "object", properties: { sku: { type: "string", maxLength: 9 } } };
  const made = form({ item, "odd name": { type: "string" }, list: { type: "array", items: { type: "string" } } }, { item: { sku: "a" }, "odd name": "b", list: ["c"] });
  const faults = [
    { path: "arguments.item.sku", message: "too short" }, { path: "arguments['odd name']", message: "does not fit the form of `pay`: 'b' does not match '^c$'" },
    { path: "arguments.list[0]", message: "no" }, { path: "arguments.lists", message: "elsewhere" },
  ];
  assert.deepEqual(made.mark(faults), [faults[3]]);
  assert.equal(field(made, "Sku").error(), "too short");
  assert.equal(field(made, "Odd name").error(), "This is not of the form that is asked for.");
  assert.equal(field(made, "List").error(), "[0]: no");
  assert.equal(window.document.activeElement, field(made, "Sku").input);
  assert.deepEqual(made.mark([{ path: "arguments", message: "does not fit the schema of `pay`: 'list' is a required property" }]), []);
  assert.equal(field(made, "List").error(), "This has to be filled in.");
  assert.equal(field(made, "Sku").error(), "");
});

test("every digit stays: of what is untouched, of what is chosen, and of what is written", () => {
  const schema = parseExact('{"rate":{"enum":[1.0,2.50]},"account":{"type":"integer"},"sum":{"type":"number"},"ids":{"type":"array","items":{"type":"integer"}}}') as Json;
  const given = parseExact('{"rate":1.0,"account":12345678901234567890,"sum":1.10,"ids":[9007199254740993]}') as Json;
  const made = form(schema, given);
  assert.equal(JSON.stringify(made.read()), JSON.stringify(given));
  field(made, "Rate").input.value = "1";
  field(made, "Account").input.value = "98765432109876543210";
  field(made, "Sum").input.value = "007.20";
  field(made, "Ids").input.value = "9007199254740993\n9007199254740995";
  assert.equal(JSON.stringify(made.read()), '{"rate":2.50,"account":98765432109876543210,"sum":7.20,"ids":[9007199254740993,9007199254740995]}');
});

test("labels are text that hides nothing, and two of the same name are kept apart", () => {
  const bad = "<img src=x onerror=alert(1)>";
  const made = form({ a: { type: "string", title: bad, description: "x\u202ey" }, b: { enum: [`${bad}\u2066`, "b"], title: "Same" }, c: { type: "object", title: "Same", properties: { __proto__x: { type: "string" } } } }, {});
  assert.equal(made.node.querySelector("img"), null);
  assert.ok(made.node.textContent?.includes(bad));
  assert.doesNotMatch(made.node.textContent ?? "", /[\u202e\u2066]/);
  assert.deepEqual([...made.node.querySelectorAll("label, legend")].map((each) => each.firstChild?.textContent).filter((each) => each?.startsWith("Same")), ["Same (b)", "Same (c)"]);
});

test("a schema that is odd makes a form all the same", () => {
  const loop = { properties: { x: { $ref: "#/properties/x" }, y: { $ref: "#/$defs/nowhere" }, z: { type: ["string", "integer"] } } };
  assert.deepEqual(shapesOf(loop, {}).map(({ kind }) => kind.is), ["json", "json", "json"]);
  const deep = (left: number): Json => (left ? { type: "object", properties: { in: deep(left - 1) } } : { type: "string" });
  assert.ok(JSON.stringify(shapesOf({ properties: { in: deep(9) } }, {})).includes('"json"'));
  for (const odd of [{ properties: null }, { properties: [] }, { properties: { x: null } }, { properties: { x: { enum: "no", required: 5, title: 7, oneOf: [null] } } }, { required: ["constructor"] }]) {
    assert.ok(shapesOf(odd as Json, {}).length <= 1);
  }
});

test("a schema that is more than can be shown, or no schema at all, is JSON from there on, and never throws", () => {
  const names = Array.from({ length: 40 }, (_, at) => `field_${at}`);
  const wide = { type: "object", properties: Object.fromEntries(names.map((name) => [name, { $ref: "#/$defs/node" }])), required: names };
  const count = (shapes: ReturnType<typeof shapesOf>): number => shapes.reduce((sum, { kind }) => sum + 1 + (kind.is === "group" ? count(kind.shapes) : 0), 0);
  const shapes = shapesOf({ ...wide, $defs: { node: wide } }, {});
  assert.deepEqual(shapes.map(({ name }) => name), names);
  assert.ok(count(shapes) <= 200, `${count(shapes)} fields`);
  assert.deepEqual([...new Set(shapes.map(({ kind }) => kind.is))], ["group", "json"]);
  const kinds = (schema: Json): readonly unknown[] => shapesOf(schema, { x: 1 }).map(({ name, kind }) => [name, kind.is]);
  assert.deepEqual(kinds({ properties: { x: { $ref: "#/%" }, y: { type: "string" } } }), [["x", "json"], ["y", "text"]]);
  assert.deepEqual(kinds({ properties: { x: { oneOf: [{ const: 1, title: { toString: 1 } }] } } }), [["x", "json"]], "what cannot be read at all");
  for (const schema of [{ properties: [] }, { properties: { x: { $ref: "#/properties/x" } } }, { required: 7, properties: { x: { enum: [{}], type: ["null"] } } }]) assert.deepEqual(kinds(schema as Json), [["x", "json"]]);
});

test("a choice shows what goes out beside its label, where that is something else", () => {
  const made = form({ x: { oneOf: [{ const: 1, title: "First" }, { const: "two" }] } }, { x: 1 });
  assert.deepEqual([...field(made, "X").input.querySelectorAll("option")].map((each) => each.textContent).slice(-2), ["First (1)", "two"]);
});
