/** A drawing as a picture: what of the page's styles makes it look as it does goes into it. */

import { widthOf } from "./layout.js";

const SPACE = "http://www.w3.org/2000/svg";
const KEPT = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "font-family", "font-size", "font-weight", "text-anchor", "opacity"];

/** Return *svg* as a PNG of twice its size, with *title* and the *legend* (name, class of its colour) above. */
export async function pngOf(svg: SVGSVGElement, title: string, legend: readonly (readonly [string, string])[]): Promise<Blob> {
  const { width, height } = svg.viewBox.baseVal;
  const copy = svg.cloneNode(true) as SVGSVGElement;
  const [from, to] = [svg.querySelectorAll("*"), copy.querySelectorAll("*")];
  from.forEach((each, at) => {
    const style = getComputedStyle(each);
    for (const name of KEPT) (to[at] as Element).setAttribute(name, style.getPropertyValue(name));
  });
  copy.querySelectorAll(".hit, .reading").forEach((each) => each.remove());
  const { color, backgroundColor, fontFamily } = getComputedStyle(svg);
  const sheet = make("svg", { xmlns: SPACE });
  const write = (text: string, is: Record<string, string | number>): void => {
    const node = make("text", { "font-family": fontFamily, fill: color, ...is });
    node.textContent = text;
    sheet.append(node);
  };
  let [x, top] = [12, title ? 40 : 12];
  const paper = make("rect", { width: "100%", height: "100%", fill: backgroundColor });
  sheet.append(paper);
  if (title) write(title, { x: 12, y: 26, "font-size": 15, "font-weight": 600 });
  legend.forEach(([name, kind], at) => {
    const wide = widthOf(name) + 30;
    if (at && x + wide > width) [x, top] = [12, top + 18];
    sheet.append(make("rect", { x, y: top, width: 10, height: 10, rx: 2, fill: getComputedStyle(svg).getPropertyValue(`--${kind}`) }));
    write(name, { x: x + 15, y: top + 9.5, "font-size": 12 });
    x += wide;
  });
  if (legend.length) top += 18;
  copy.setAttribute("y", String(top));
  for (const [name, value] of [["width", width], ["height", height]] as const) copy.setAttribute(name, String(value));
  sheet.append(copy);
  const size = { width: width * 2, height: (height + top + 4) * 2 };
  for (const [name, value] of [...Object.entries(size), ["viewBox", `0 0 ${width} ${height + top + 4}`]] as const) sheet.setAttribute(name, String(value));
  return painted(sheet, size);
}

async function painted(sheet: SVGElement, { width, height }: { readonly width: number; readonly height: number }): Promise<Blob> {
  const url = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(sheet)], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    image.src = url;
    await image.decode();
    const canvas = Object.assign(document.createElement("canvas"), { width, height });
    canvas.getContext("2d")?.drawImage(image, 0, 0, width, height);
    return await new Promise((resolve, reject) => canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("no picture"))), "image/png"));
  } finally {
    URL.revokeObjectURL(url);
  }
}

/** Return a new element of SVG with attributes. */
export function make<K extends keyof SVGElementTagNameMap>(tag: K, is: Readonly<Record<string, string | number>>): SVGElementTagNameMap[K] {
  const element = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(is)) element.setAttribute(name, String(value));
  return element;
}

