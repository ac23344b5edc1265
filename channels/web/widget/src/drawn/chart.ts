/** A plain chart as an own SVG: legend, values on pointing and by the keyboard. A chunk of its own. */

import { h, setAttribute } from "../dom.js";
import { brief } from "./format.js";
import type { Frame } from "./frame.js";
import { colour, percent, pictureOf, slices, type Picture, type Shape, type Spot } from "./layout.js";
import type { PlainChart } from "./payload.js";
import { shares } from "./scale.js";
import { make, pngOf } from "./sheet.js";
import { fill, type DrawnStrings } from "./words.js";

const NARROWEST = 220;

export interface ChartPlace {
  readonly frame: Frame;
  readonly title: string | undefined;
  readonly words: DrawnStrings;
  /** Save the chart as the file that it is drawn into. */
  savePng(picture: Blob): void;
}

/** Draw *chart* in its frame. */
export function drawChart(chart: PlainChart, { frame, title, words, savePng }: ChartPlace): void {
  const hidden = new Set<number>();
  const svg = make("svg", { role: "img", "aria-label": describe(chart, title, words) });
  const box = h("div", { class: "chart", tabindex: "0", role: "group", "aria-label": words.keys }, svg);
  const pointer = createPointer(box, names(chart), frame.say);
  let width = 0;
  const draw = (): void => {
    if (!width) return;
    const picture = pictureOf(chart, { width, hidden, locale: words.locale });
    paint(svg, picture);
    pointer.now(picture);
  };
  const resized = new ResizeObserver(([entry]) => {
    if (!box.isConnected) return resized.disconnect();
    const now = Math.max(NARROWEST, Math.round(entry?.contentRect.width ?? 0));
    if (now === width || !entry?.contentRect.width) return;
    width = now;
    draw();
  });
  resized.observe(box);
  const legend = legendOf(chart, hidden, words, draw);
  frame.node.append(box, ...(legend ? [legend] : []));
  frame.button(words.png, words.savePng, async () => {
    const shown = names(chart).map((each, at) => [each, colour(at)] as const).filter((_, at) => !hidden.has(at));
    savePng(await pngOf(svg, title ?? "", legend ? shown : []));
  });
}

/** Return what the legend names: the series, of a pie its categories. */
function names({ type, categories, series }: PlainChart): readonly string[] {
  return type === "pie" ? categories : series.map(({ name }) => name);
}

/** Return *chart* in one sentence: what it is, and from where to where each series goes. */
export function describe(chart: PlainChart, title: string | undefined, words: DrawnStrings): string {
  const ranges = chart.series.slice(0, 6).map(({ name, values, points }) => {
    const found = chart.type === "scatter" ? points.map(([, y]) => y) : values.filter((each) => each !== null);
    if (!found.length) return name;
    const [low, high] = found.reduce(([a, b], each) => [Math.min(a, each), Math.max(b, each)], [Infinity, -Infinity]);
    return fill(words.range, { name, low: brief(low, words.locale, chart.format), high: brief(high, words.locale, chart.format) });
  });
  return [title, [words.kinds[chart.type], chart.x, chart.y].filter(Boolean).join(", "), ...ranges].filter(Boolean).join(". ");
}

function paint(svg: SVGSVGElement, { width, height, shapes }: Picture): void {
  for (const [name, value] of [["viewBox", `0 0 ${width} ${height}`], ["width", width], ["height", height]] as const) setAttribute(svg, name, String(value));
  svg.replaceChildren(...shapes.map(shapeNode));
}

function shapeNode({ tag, is, text, full }: Shape): SVGElement {
  const node = make(tag, is);
  if (text !== undefined) node.append(text);
  if (full === undefined) return node;
  const title = make("title", {});
  title.append(full);
  node.append(title);
  return node;
}

/** Return a button for each series, which takes it out and brings it back; null for one alone. */
function legendOf(chart: PlainChart, hidden: Set<number>, words: DrawnStrings, draw: () => void): HTMLElement | null {
  const all = names(chart);
  if (all.length < 2) return null;
  const parts = all.map(() => h("span"));
  const share = (): void => {
    if (chart.type !== "pie") return;
    shares(slices(chart, hidden)).forEach((each, at) => (parts[at] as HTMLElement).replaceChildren(hidden.has(at) ? "" : percent(each)));
  };
  const keys = all.map((name, at) => {
    const key = h("button", { type: "button", class: "key", "aria-pressed": "true", title: name }, h("i", { class: colour(at) }), h("bdi", {}, name), parts[at]);
    key.addEventListener("click", () => {
      if (!hidden.delete(at)) hidden.add(at);
      setAttribute(key, "aria-pressed", String(!hidden.has(at)));
      share();
      draw();
    });
    return key;
  });
  share();
  return h("div", { class: "legend", role: "group", "aria-label": words.legend }, ...keys);
}

/** Show the values of what is pointed at, by a pointer or with the arrow keys, which are announced too. */
function createPointer(box: HTMLElement, all: readonly string[], say: (text: string) => void) {
  const tip = h("div", { class: "tip", hidden: true, "aria-hidden": "true" });
  let picture: Picture | null = null;
  let at = -1;
  box.append(tip);
  const show = (next: number): void => {
    at = next;
    const spot = picture?.spots[at];
    box.querySelectorAll(".on").forEach((each) => each.classList.remove("on"));
    tip.hidden = !spot;
    if (!spot || !picture) return;
    box.querySelector(`[data-at="${at}"]`)?.classList.add("on");
    tip.replaceChildren(...(spot.label ? [h("b", {}, spot.label)] : []), ...spot.values.map(({ series, text }) => h("span", {}, h("i", { class: colour(series) }), all.length > 1 && spot.label !== all[series] && h("bdi", {}, all[series]), text)));
    const [most, half] = [picture.width, tip.offsetWidth / 2];
    tip.style.left = `${Math.max(0, Math.min(most - 2 * half, spot.x - half))}px`;
    tip.style.top = `${spot.y - tip.offsetHeight - 10 < 0 ? spot.y + 14 : spot.y - tip.offsetHeight - 10}px`;
  };
  const read = (): void => {
    const spot = picture?.spots[at];
    if (spot) say([spot.label, spot.values.map(({ series, text }) => (all.length > 1 && spot.label !== all[series] ? `${all[series]} ${text}` : text)).join(", ")].filter(Boolean).join(": "));
  };
  const over = (event: Event): void => {
    const hit = (event.target as Element).closest<SVGElement>("[data-at]");
    show(hit ? Number(hit.dataset["at"]) : -1);
  };
  box.addEventListener("pointermove", over);
  box.addEventListener("pointerdown", over);
  box.addEventListener("pointerleave", () => show(-1));
  box.addEventListener("blur", () => show(-1));
  box.addEventListener("keydown", (event) => {
    const next = stepped(event.key, at, picture?.spots ?? []);
    if (next === null) return;
    event.preventDefault();
    event.stopPropagation(); // Escape would stop the run
    show(next);
    read();
  });
  return {
    now(next: Picture): void {
      picture = next;
      show(-1);
    },
  };
}

/** Return where *key* leads from the spot *at*; null for a key of others. */
export function stepped(key: string, at: number, { length }: readonly Spot[]): number | null {
  if (key === "Escape") return at < 0 ? null : -1;
  if (!length) return null;
  const moves: Readonly<Record<string, number>> = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at < 0 ? length - 1 : at - 1, ArrowUp: at < 0 ? length - 1 : at - 1, Home: 0, End: length - 1 };
  const next = moves[key];
  return next === undefined ? null : Math.max(0, Math.min(length - 1, next));
}
