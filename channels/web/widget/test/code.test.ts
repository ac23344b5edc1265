import assert from "node:assert/strict";
import { test } from "node:test";
import { JSDOM } from "jsdom";
import css from "../src/code/code.css";
import { dressed } from "../src/code/main.js";
import { hljs } from "../src/code/languages.js";
import { spansOf } from "../src/code/spans.js";
import { contrast } from "./contrast.js";

const { window } = new JSDOM("");
Object.assign(globalThis, { document: window.document });

const SOURCE = `<script>alert("1")</script> /* a */ # b -- c
function f(x: number) { return \`\${x} "y"\`; } // <img src=x onerror=alert(1)>
@media (min-width: 1px) { a:hover > .b { color: #fff; --x: 12px } }
SELECT 'it''s' FROM t WHERE n >= 3.5e1; key: [true, null]
+ added
- removed
`;

test("code keeps every letter, in every language, and becomes spans of classes alone", () => {
  const languages = hljs.listLanguages();
  assert.ok(languages.length >= 20, String(languages.length));
  for (const language of languages) {
    const spans = spansOf(SOURCE, language);
    assert.equal(spans?.textContent, SOURCE, language);
    for (const each of spans?.querySelectorAll("*") ?? []) {
      assert.equal(each.localName, "span");
      assert.deepEqual(each.getAttributeNames(), ["class"]);
      assert.match(each.className, /^hl-[\w-]+$/, language);
    }
  }
});

const marked = (code: string, language: string, kind: string): readonly string[] =>
  [...(spansOf(code, language)?.querySelectorAll(`.hl-${kind}`) ?? [])].map((each) => each.textContent ?? "");

test("what people write is distinguished: words of the language, texts, numbers, names", () => {
  assert.deepEqual(marked("def area(r):\n    return 'x' * 3", "py", "keyword"), ["def", "return"]);
  assert.deepEqual(marked("def area(r):\n    return 'x' * 3", "python", "string"), ["'x'"]);
  assert.deepEqual(marked("const a: number = 12;", "ts", "number"), ["12"]);
  assert.deepEqual(marked("int main(void) { return 0; }", "c", "keyword"), ["return"]);
  assert.deepEqual(marked("<p class='x'>a</p>", "html", "attr"), ["class"]);
  const sheet = "@media print { a:hover, #id .b { color: red; --gap: 2px; width: calc(1% + 3px) } } /* c */";
  assert.deepEqual(marked(sheet, "css", "attribute"), ["color", "--gap", "width"]);
  assert.deepEqual(marked(sheet, "scss", "number"), ["2px", "1%", "3px"]);
  assert.deepEqual([marked(sheet, "css", "selector"), marked(sheet, "css", "selector-class"), marked(sheet, "css", "comment")], [[], [".b"], ["/* c */"]]);
});

test("an unknown language, none, and very much code stay plain", () => {
  assert.deepEqual([spansOf("a", "klingon"), spansOf("a", ""), spansOf("a".repeat(50_001), "js")], [null, null, null]);
});

test("a block gets its colours once, and its lines wrap on demand", () => {
  const block = document.createElement("div");
  const [bar, label, pre, code] = ["div", "span", "pre", "code"].map((name) => document.createElement(name)) as [HTMLElement, HTMLElement, HTMLElement, HTMLElement];
  bar.className = "code-bar";
  label.textContent = "JSON";
  code.textContent = '{"a": 1}';
  bar.append(label);
  pre.append(code);
  block.append(bar, pre);
  dressed(block, { wrap: "Wrap" });
  assert.equal(pre.textContent, '{"a": 1}');
  assert.equal(code.querySelector(".hl-number")?.textContent, "1");
  const button = block.querySelector("button");
  button?.click();
  assert.deepEqual([button?.getAttribute("aria-pressed"), block.classList.contains("wrapped")], ["true", true]);
  button?.click();
  assert.deepEqual([button?.getAttribute("aria-pressed"), block.classList.contains("wrapped")], ["false", false]);
});

test("every colour of code can be read, on light ground and on dark", () => {
  const pairs = [...css.matchAll(/light-dark\((#[0-9a-f]{6}),\s*(#[0-9a-f]{6})\)/g)];
  assert.equal(pairs.length, 9);
  for (const [, light, dark] of pairs) {
    assert.ok(contrast(light as string, "#ffffff") >= 4.5, light);
    assert.ok(contrast(dark as string, "#17181d") >= 4.5, dark);
  }
});
