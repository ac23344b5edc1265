/** The few DOM moves that the view is made of. */

type Child = Node | string | null | undefined | false;

/** Return a new element with *attributes* (null and false leave one out) and *children*. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Readonly<Record<string, string | boolean | null>> = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) setAttribute(element, name, value);
  element.append(...children.filter((child): child is Node | string => child !== null && child !== undefined && child !== false));
  return element;
}

/** Set, or with null or false remove, an attribute; an unchanged one is left alone. */
export function setAttribute(element: Element, name: string, value: string | boolean | null): void {
  if (value === null || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value === true ? "" : value);
}

/** Set the text of *node*, unless it is that already. */
export function setText(node: Node, text: string): void {
  if (node.textContent !== text) node.textContent = text;
}

/** Make *nodes* the children of *parent*, moving none that is in its place. */
export function setChildren(parent: Element, nodes: readonly Node[]): void {
  const wanted = new Set(nodes);
  for (const child of [...parent.childNodes]) if (!wanted.has(child)) child.remove();
  nodes.forEach((node, index) => {
    if (parent.childNodes[index] !== node) parent.insertBefore(node, parent.childNodes[index] ?? null);
  });
}

/** The path of a pencil, for `icon`. */
export const PENCIL = "M12 20h9M16.5 3.5a2.1 2.1 0 013 3L7 19l-4 1 1-4z";

/** Return an icon drawn by *path* on a grid of 24, hidden from assistive technology. */
export function icon(path: string): SVGSVGElement {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  const line = document.createElementNS(space, "path");
  for (const [name, value] of [["viewBox", "0 0 24 24"], ["aria-hidden", "true"], ["class", "icon"]] as const) svg.setAttribute(name, value);
  line.setAttribute("d", path);
  svg.append(line);
  return svg;
}
