/** Markdown as DOM nodes, built one by one from the parser's tokens: no markup of the model's is ever parsed as HTML. */

import { Lexer, type Token, type Tokens } from "marked";
import { h, setChildren, setText } from "../dom.js";

/** How a page's words come into a code block. */
export interface MarkdownStrings {
  readonly copy: string;
}

interface Drawn {
  readonly token: Token;
  readonly node: Node | null;
}

const SETTLED_BEFORE = 3; // blocks that text still to come may change; those before them are not parsed again

/**
 * Return a function that shows a growing text in *host*.
 *
 * Only blocks that changed are drawn again. *final* parses the whole text once more, for link targets that came after their use.
 */
export function markdownIn(host: Element, strings: MarkdownStrings): (text: string, final: boolean) => void {
  let settled = "";
  let before: readonly Drawn[] = [];
  let tail: readonly Drawn[] = [];
  let last: string | null = null;

  return (source, final) => {
    if (source === last && !final) return;
    last = source;
    const text = source.replace(/\r\n?/g, "\n");
    const keep = text.startsWith(settled) && !(final && /^ {0,3}\[[^\]]+\]:/m.test(text));
    if (!keep) [settled, before, tail] = ["", [], []];
    tail = draw(parse(text.slice(settled.length)), tail, strings);
    setChildren(host, [...before, ...tail].flatMap(({ node }) => node ?? []));
    const done = tail.slice(0, -SETTLED_BEFORE);
    const raw = done.map(({ token }) => token.raw).join("");
    if (!final && raw && text.startsWith(raw, settled.length)) {
      settled += raw;
      before = [...before, ...done];
      tail = tail.slice(done.length);
    }
  };
}

/** Return *text* as nodes. */
export function markdownNodes(text: string, strings: MarkdownStrings): readonly Node[] {
  return draw(parse(text), [], strings).flatMap(({ node }) => node ?? []);
}

function parse(text: string): readonly Token[] {
  try {
    return new Lexer({ gfm: true, breaks: true }).lex(text);
  } catch {
    return [{ type: "html", raw: text, text } as Token]; // nested too deeply for the parser: shown as it came
  }
}

function draw(tokens: readonly Token[], old: readonly Drawn[], strings: MarkdownStrings): readonly Drawn[] {
  return tokens.map((token, index): Drawn => {
    const drawn = old[index];
    if (drawn?.token.type === token.type) {
      if (drawn.token.raw === token.raw) return drawn;
      if (token.type === "code" && drawn.node && updateCode(drawn, token as Tokens.Code)) return { token, node: drawn.node };
    }
    return { token, node: block(token, strings) };
  });
}

function block(token: Token, strings: MarkdownStrings): Node | null {
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "heading":
      return h(`h${Math.min(6, (token as Tokens.Heading).depth + 2)}` as "h3", {}, ...inlines(token.tokens));
    case "code":
      return codeBlock(token as Tokens.Code, strings);
    case "blockquote":
      return h("blockquote", {}, ...blocks(token.tokens, strings));
    case "list":
      return list(token as Tokens.List, strings);
    case "table":
      return table(token as Tokens.Table);
    case "hr":
      return h("hr");
    case "paragraph":
      return h("p", {}, ...inlines(token.tokens));
    case "html":
      return h("p", { class: "raw" }, (token as Tokens.HTML).raw.trim());
    default:
      return inline(token);
  }
}

function blocks(tokens: readonly Token[] | undefined, strings: MarkdownStrings): readonly Node[] {
  return (tokens ?? []).flatMap((token) => block(token, strings) ?? []);
}

function inlines(tokens: readonly Token[] | undefined): readonly Node[] {
  return (tokens ?? []).map(inline);
}

function inline(token: Token): Node {
  switch (token.type) {
    case "strong":
    case "em":
    case "del":
      return h(token.type, {}, ...inlines(token.tokens));
    case "codespan":
      return h("code", {}, (token as Tokens.Codespan).text);
    case "br":
      return h("br");
    case "link":
      return link((token as Tokens.Link).href, inlines(token.tokens));
    case "image":
      return image(token as Tokens.Image);
    case "checkbox":
      return h("input", { type: "checkbox", disabled: true, checked: (token as Tokens.Checkbox).checked });
    case "text":
      return token.tokens ? fragment(inlines(token.tokens)) : document.createTextNode(decode((token as Tokens.Text).text));
    case "escape":
      return document.createTextNode((token as Tokens.Escape).text);
    default:
      return document.createTextNode(token.raw);
  }
}

/** A link leaves the page in a new tab; one that is not http, https, mailto or tel is only its text. */
function link(href: string, children: readonly Node[]): Node {
  const url = safeUrl(decode(href));
  if (url === null) return fragment(children);
  return h("a", { href: url, target: "_blank", rel: "noopener noreferrer nofollow" }, ...children);
}

/** An image would tell its server who reads what: it is shown as a link. */
function image({ href, text }: Tokens.Image): Node {
  const label = decode(text) || href;
  return link(href, [document.createTextNode(`🖼 ${label}`)]);
}

/** Return *href* as an absolute URL that is safe to follow, else null. */
export function safeUrl(href: string): string | null {
  try {
    const url = new URL(href);
    return /^(https?|mailto|tel):$/.test(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

function codeBlock({ text, lang }: Tokens.Code, strings: MarkdownStrings): HTMLElement {
  const bar = h("div", { class: "code-bar" }, h("span", {}, firstWord(lang)), h("button", { type: "button", "data-copy": true }, strings.copy));
  return h("div", { class: "code fresh" }, bar, h("pre", { tabindex: "0" }, h("code", {}, text)));
}

function updateCode({ token, node }: Drawn, { text, lang }: Tokens.Code): boolean {
  const code = (node as Element).querySelector("code");
  if (!code || firstWord((token as Tokens.Code).lang) !== firstWord(lang)) return false;
  setText(code, text);
  return true;
}

/** A word that may be wider than what a narrow page, or any, has for the first column, which stays in sight. */
const [LONG, LONGEST] = [/\S{14}/, /\S{34}/];

function firstWord(text: string | undefined): string {
  return (text ?? "").split(/\s/, 1)[0] ?? "";
}

function list({ ordered, start, items }: Tokens.List, strings: MarkdownStrings): HTMLElement {
  const rows = items.map((item) => h("li", { class: item.task ? "task" : null }, ...blocks(item.tokens, strings)));
  return ordered ? h("ol", { start: start === 1 || start === "" ? null : String(start) }, ...rows) : h("ul", {}, ...rows);
}

function table({ header, rows }: Tokens.Table): HTMLElement {
  const names = [header, ...rows].map(([first]) => first?.text).join(" ");
  const broken = LONGEST.test(names) ? "torn" : LONG.test(names) && "broken";
  const cell = (tag: "th" | "td") => (each: Tokens.TableCell, at: number) =>
    h(tag, { class: [each.align, !at && broken].filter(Boolean).join(" ") || null }, ...inlines(each.tokens));
  const head = h("thead", {}, h("tr", {}, ...header.map(cell("th"))));
  const body = h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map(cell("td")))));
  return h("div", { class: "table", tabindex: "0" }, h("table", {}, head, body));
}

function fragment(nodes: readonly Node[]): Node {
  const holder = document.createElement("span");
  holder.append(...nodes);
  return holder;
}

const ENTITIES: Readonly<Record<string, string>> = {
  amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", copy: "©", reg: "®", trade: "™", hellip: "…", mdash: "—",
  ndash: "–", times: "×", divide: "÷", deg: "°", middot: "·", bull: "•", larr: "←", rarr: "→", euro: "€", pound: "£",
};

/** Return *text* with its character references read, the common names among them; the result is only ever used as text. */
function decode(text: string): string {
  return text.replace(/&(?:#(\d{1,7})|#x([\da-f]{1,6})|([a-z]+));/gi, (whole, decimal?: string, hex?: string, name?: string) => {
    if (name) return Object.hasOwn(ENTITIES, name) ? (ENTITIES[name] as string) : whole;
    const point = decimal ? Number(decimal) : parseInt(hex ?? "", 16);
    return point > 0 && point <= 0x10ffff ? String.fromCodePoint(point) : whole;
  });
}
