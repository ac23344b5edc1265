import assert from "node:assert/strict";
import { test } from "node:test";
import { JSDOM } from "jsdom";
import { markdownIn, markdownNodes, safeUrl } from "../src/markdown/markdown.js";

const { window } = new JSDOM("");
globalThis.document = window.document;
const strings = { copy: "Copy" };

function draw(text: string): HTMLElement {
  const host = document.createElement("div");
  host.append(...markdownNodes(text, strings));
  return host;
}

const HOSTILE = [
  "<script>alert(1)</script>",
  "<img src=x onerror=alert(1)>",
  "text <b onclick=alert(1)>bold</b> <svg/onload=alert(1)>",
  "<iframe srcdoc='<script>alert(1)</script>'></iframe>\n\n<style>*{display:none}</style>",
  "[a](javascript:alert(1)) [b](JaVaScRiPt:alert(1)) [c](java\nscript:alert(1)) [d](&#106;avascript:alert(1)) [e](&#x6A;avascript&colon;alert(1))",
  "[a](data:text/html,<script>alert(1)</script>) [b](vbscript:msgbox(1)) [c](file:///etc/passwd) [d](blob:x) [e](//evil.example)",
  "<javascript:alert(1)> [x]: javascript:alert(1)\n\n[x]\n\n[x]: javascript:alert(1)",
  "![x](https://evil.example/pixel.png?secret) ![y](data:image/svg+xml,<svg onload=alert(1)>) ![z](javascript:alert(1))",
  "[a](https://x.example \"onmouseover=alert(1)\") [b](https://x.example/\"onclick=alert(1))",
  "```html\" onmouseover=\"alert(1)\n<script>alert(1)</script>\n```",
  "| <img src=x onerror=alert(1)> | `<b>` |\n|---|---|\n| [x](javascript:1) | <a href=javascript:1>y</a> |",
  "- [x] <input onfocus=alert(1) autofocus>\n> <math><mi xlink:href='data:x'>",
  "&lt;script&gt;alert(1)&lt;/script&gt; &#60;img src=x onerror=alert(1)&#62;",
  "<form action=https://evil.example><button formaction=javascript:alert(1)>",
];

const TAGS = "p h3 h4 h5 h6 strong em del code pre a br hr ul ol li blockquote table thead tbody tr th td div span button input".split(" ");
const ATTRIBUTES = "href target rel class tabindex type data-copy disabled checked start".split(" ");

for (const text of HOSTILE) {
  test(`hostile markdown stays text: ${JSON.stringify(text.slice(0, 60))}`, () => {
    for (const element of draw(text).querySelectorAll("*")) {
      assert.ok(TAGS.includes(element.localName), element.outerHTML);
      for (const { name } of element.attributes) assert.ok(ATTRIBUTES.includes(name), element.outerHTML);
      if (element.hasAttribute("href")) assert.match(element.getAttribute("href") ?? "", /^(https?|mailto|tel):/);
    }
  });
}

test("links open in a new tab, without referrer or opener", () => {
  const link = draw("[docs](https://x.example/a_(b)?q=1&amp;r=2)").querySelector("a");
  assert.equal(link?.getAttribute("rel"), "noopener noreferrer nofollow");
  assert.equal(link?.getAttribute("target"), "_blank");
  assert.equal(link?.getAttribute("href"), "https://x.example/a_(b)?q=1&r=2");
});

test("images are links that load nothing", () => {
  const host = draw("![a cat](https://evil.example/cat.png)");
  assert.equal(host.querySelector("img"), null);
  assert.equal(host.querySelector("a")?.textContent, "🖼 a cat");
});

test("raw HTML is shown as the text that it is", () => {
  assert.equal(draw("<script>alert(1)</script>").textContent, "<script>alert(1)</script>");
  assert.equal(draw("a <b>c</b> &lt;d&gt; &copy; &nosuch;").textContent, "a <b>c</b> <d> © &nosuch;");
});

test("only addresses that are safe to follow become links", () => {
  assert.equal(safeUrl("https://x.example"), "https://x.example/");
  for (const bad of ["javascript:1", "\u0001javascript:1", "data:,x", "relative", "//x.example", "", "blob:https://x"]) assert.equal(safeUrl(bad), null, bad);
});

test("what models write comes out as it should", () => {
  const host = draw("# T\n\ntext *a* **b** ~~c~~ snake_case_name `x`\n\n1. one\n   - sub\n\n   ```py\n   y = 1\n   ```\n2. two\n\n| a | b |\n|:-:|--:|\n| 1 | 2 |\n\n- [x] done");
  const count = (selector: string): number => host.querySelectorAll(selector).length;
  assert.deepEqual(["h3", "em", "strong", "del", "ol > li", "ul ul, ol ul", "pre", "td.center", "td.right", "input:checked"].map(count), [1, 1, 1, 1, 2, 1, 1, 1, 1, 1]);
  assert.match(host.textContent ?? "", /snake_case_name/);
  assert.equal(host.querySelector("pre")?.textContent, "y = 1");
});

test("a text nested beyond all measure is shown as it came", () => {
  const deep = ">".repeat(20_000);
  assert.equal(draw(deep).textContent, deep);
});

const LONG = "# Title\n\nOne *two*\n\n```js\nlet a = 1;\n```\n\n1. a\n\n   b\n2. c\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nSetext\n===\n\n> quote\n\nSee [ref].\n\n- x\n- y\n\nend\r\nof it\n\n[ref]: https://x.example\n";

for (const step of [1, 3, 11]) {
  test(`a text that grows by ${step} ends as the whole text does`, () => {
    const host = document.createElement("div");
    const write = markdownIn(host, strings);
    for (let end = 0; end < LONG.length; end += step) write(LONG.slice(0, end), false);
    write(LONG, true);
    assert.equal(host.innerHTML, draw(LONG).innerHTML);
  });
}

test("while a text grows, the blocks before its end keep their nodes", () => {
  const host = document.createElement("div");
  const write = markdownIn(host, strings);
  write("First\n\n```js\nlet a", false);
  const [first, code] = host.childNodes;
  write("First\n\n```js\nlet a = 1;\nlet b", false);
  assert.deepEqual([host.childNodes[0] === first, host.childNodes[1] === code], [true, true]);
  assert.equal(host.querySelector("pre")?.textContent, "let a = 1;\nlet b");
});

test("a text that is replaced leaves nothing of the one before", () => {
  const host = document.createElement("div");
  const write = markdownIn(host, strings);
  write("a\n\nb\n\nc\n\nd\n\ne\n\nf", false);
  write("z", false);
  assert.equal(host.textContent, "z");
});
