/** The style sheets of chunks, adopted by the shadow root in which they are first needed. */

const adopted = new WeakMap<ShadowRoot, Set<string>>();

/** Let the shadow root of *host* have the sheet *css*, once; whether there is one. */
export function adopt(host: HTMLElement, css: string): boolean {
  const root = host.getRootNode();
  if (!(root instanceof ShadowRoot)) return false;
  const known = adopted.get(root) ?? new Set();
  if (!known.has(css)) {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(css);
    root.adoptedStyleSheets = [...root.adoptedStyleSheets, sheet];
    adopted.set(root, known.add(css));
  }
  return true;
}
