/** Code as spans: what the highlighter finds becomes nodes, never markup that is parsed. */

import { hljs } from "./languages.js";

const LONGEST = 50_000; // characters; what is longer stays plain, for colouring it would stop the page for a moment

/** What the highlighter writes to, in place of its own writer of HTML; it asks for exactly these methods. */
class SpanEmitter {
  readonly root = document.createDocumentFragment();
  #open: ParentNode[] = [this.root];

  get #top(): ParentNode {
    return this.#open.at(-1) ?? this.root;
  }
  addText(text: string): void {
    this.#top.append(text);
  }
  startScope(scope: string): void {
    const span = document.createElement("span");
    span.className = `hl-${scope.split(".", 1)[0]}`;
    this.#top.append(span);
    this.#open.push(span);
  }
  endScope(): void {
    if (this.#open.length > 1) this.#open.pop();
  }
  openNode(scope: string): void {
    this.startScope(scope);
  }
  closeNode(): void {
    this.endScope();
  }
  __addSublanguage({ root }: SpanEmitter): void {
    this.#top.append(root);
  }
  finalize(): void {
    this.#open = [this.root];
  }
  toHTML(): string {
    return "";
  }
}

hljs.configure({ __emitter: SpanEmitter as never });

/** Return *code* with its colours, or null where there are none: an unknown *language*, or too much of it. */
export function spansOf(code: string, language: string): DocumentFragment | null {
  if (code.length > LONGEST || !hljs.getLanguage(language)) return null;
  const { _emitter: emitter, errorRaised } = hljs.highlight(code, { language, ignoreIllegals: true });
  const { root } = emitter as unknown as SpanEmitter;
  return errorRaised || root.textContent !== code ? null : root;
}
