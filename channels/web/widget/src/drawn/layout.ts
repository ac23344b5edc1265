/** A plain chart as shapes: where everything is, for a width. Pure. */

import { amountOptions, brief } from "./format.js";
import type { PlainChart } from "./payload.js";
import { extent, nice, shares, stack, type Scale } from "./scale.js";

/** An element of SVG; `full` is what a shortened text says whole. */
export interface Shape {
  readonly tag: "rect" | "path" | "circle" | "line" | "text";
  readonly is: Readonly<Record<string, string | number>>;
  readonly text?: string;
  readonly full?: string;
}

/** What can be pointed at: its shapes carry its index as `data-at`. */
export interface Spot {
  readonly label: string;
  readonly x: number;
  readonly y: number;
  /** By the index of the series; of a pie, of the category. */
  readonly values: readonly { readonly series: number; readonly text: string }[];
}

export interface Picture {
  readonly width: number;
  readonly height: number;
  readonly shapes: readonly Shape[];
  readonly spots: readonly Spot[];
}

export interface View {
  readonly width: number;
  /** Series, of a pie categories, that are left out. */
  readonly hidden: ReadonlySet<number>;
  readonly locale?: string | undefined;
}

export const COLOURS = 8;
const [LINE, TALLEST, DASHES] = [15, 1_600, ["", "7 4", "2 4", "9 3 2 3"]];
const round = (value: number): number => Math.round(value * 10) / 10;

/** Return the class of the colour of the series *index*. */
export function colour(index: number): string {
  return `c${index % COLOURS}`;
}

/** Return *chart* drawn as *view* asks. */
export function pictureOf(chart: PlainChart, view: View): Picture {
  if (chart.type === "pie") return pie(chart, view);
  return chart.type === "scatter" ? scatter(chart, view) : cartesian(chart, view);
}

/** Return about how wide *text* is, in pixels. */
export function widthOf(text: string): number {
  let wide = 0;
  for (const sign of text) wide += (sign.codePointAt(0) as number) > 0x2e7f ? 12 : /[\p{M}\u200b-\u200f]/u.test(sign) ? 0 : /[ijlt.,:;'|!()\[\]]/.test(sign) ? 3.6 : 6.7;
  return wide;
}

/** Return *text* so short that it takes *most* pixels. */
export function shortened(text: string, most: number): string {
  if (widthOf(text) <= most) return text;
  const signs = [...text];
  while (signs.length > 1 && widthOf(signs.join("")) > most - 10) signs.length -= Math.ceil(signs.length / 20);
  return `${signs.join("").trimEnd()}…`;
}

interface Plot {
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
}

function label(text: string, most: number, is: Shape["is"]): Shape {
  const short = shortened(text, most);
  return { tag: "text", is, text: short, ...(short !== text && { full: text }) };
}

function writing({ low, high, ticks }: Scale, locale?: string, format?: string): (value: number) => string {
  const step = Math.abs((ticks[1] ?? 1) - (ticks[0] ?? 0));
  const own = amountOptions(format);
  const digits = Math.min(20, Math.max(0, -Math.floor(Math.log10(step) + 1e-9) + (/[^0]5$/.test(step.toPrecision(2)) ? 1 : 0) - (own?.style === "percent" ? 2 : 0)));
  const places: Intl.NumberFormatOptions = step < 1e-5 ? { notation: "scientific", minimumFractionDigits: 0, maximumFractionDigits: 2 } : Math.max(-low, high) < 1e5 ? { minimumFractionDigits: own ? digits : 0, maximumFractionDigits: digits } : { notation: "compact", maximumSignificantDigits: 4 };
  return (value) => value.toLocaleString(locale, { ...own, ...places });
}

/** Return the lines and labels of an axis of values, and how long the labels are. */
function valueAxis(scale: Scale, at: (value: number) => number, { left, right, top, bottom }: Plot, isAcross: boolean, locale?: string, format?: string): readonly Shape[] {
  const write = writing(scale, locale, format);
  return scale.ticks.flatMap((tick): readonly Shape[] => {
    const place = round(at(tick));
    const line = isAcross ? { x1: place, x2: place, y1: top, y2: bottom } : { x1: left, x2: right, y1: place, y2: place };
    const words = isAcross ? { x: place, y: bottom + LINE, "text-anchor": "middle" } : { x: left - 7, y: place + 4, "text-anchor": "end" };
    return [{ tag: "line", is: { class: tick === 0 ? "zero" : "grid", ...line } }, { tag: "text", is: words, text: write(tick) }];
  });
}

function titles({ x, y }: { readonly x?: string | undefined; readonly y?: string | undefined }, { left, right, top, bottom }: Plot, height: number): readonly Shape[] {
  const middle = round((top + bottom) / 2);
  return [
    ...(x ? [label(x, right - left, { class: "axis", x: round((left + right) / 2), y: height - 5, "text-anchor": "middle" })] : []),
    ...(y ? [label(y, bottom - top, { class: "axis", x: 12, y: middle, "text-anchor": "middle", transform: `rotate(-90 12 ${middle})` })] : []),
  ];
}

function ticksWidth(scale: Scale, locale?: string, format?: string): number {
  return Math.max(...scale.ticks.map(writing(scale, locale, format)).map(widthOf)) + 10;
}

function cartesian(chart: PlainChart, { width, hidden, locale }: View): Picture {
  const { type, categories } = chart;
  const isAcross = type === "bar" && chart.horizontal;
  const shown = chart.series.map((_, index) => index).filter((index) => !hidden.has(index));
  const values = shown.map((index) => chart.series[index]?.values ?? []);
  const isStacked = chart.stacked && type !== "line" && shown.length > 1;
  const spans = isStacked ? stack(values) : values.map((each) => each.map((value): readonly [number, number] => [0, value ?? 0]));
  const ends = isStacked ? spans.flat(2) : values.flat().filter((each) => each !== null);
  const scale = nice(...extent(ends, type !== "line"), isAcross ? Math.max(2, Math.min(6, width / 90)) : 5);

  const thick = isAcross ? Math.min(Math.max(24, (isStacked ? 1 : shown.length) * 13 + 8), Math.max(1, TALLEST / categories.length)) : 0;
  const tall = isAcross ? categories.length * thick + 10 : width < 420 ? 190 : 240;
  const [named, counted] = isAcross ? [chart.y, chart.x] : [chart.x, chart.y];
  const longest = Math.max(0, ...categories.map(widthOf));
  const left = (isAcross ? Math.min(longest + 10, width * 0.36) : ticksWidth(scale, locale, chart.format)) + (counted ? 20 : 4);
  const plot: Plot = { left: round(left), right: width - 12, top: 10, bottom: 10 + tall };
  const band = (isAcross ? tall : plot.right - plot.left) / Math.max(1, categories.length);
  const bands = isAcross ? { shapes: sideLabels(categories, plot, band, left - (counted ? 28 : 12)), below: LINE } : lowLabels(categories, plot, band);
  const height = Math.round(plot.bottom + bands.below + 8 + (named ? 20 : 0));

  const along = (value: number): number => (value - scale.low) / (scale.high - scale.low || 1);
  const at = (value: number): number => (isAcross ? plot.left + along(value) * (plot.right - plot.left) : plot.bottom - along(value) * (plot.bottom - plot.top));
  const start = (index: number): number => (isAcross ? plot.top : plot.left) + index * band;
  const marks = type === "bar" ? bars(values, spans, shown, { at, start, band, isAcross, isStacked }) : lines(type, values, spans, shown, { at, start, band, isStacked });
  const spots = categories.map((category, index): Spot => {
    const middle = round(start(index) + band / 2);
    const top = round(at(Math.max(0, ...spans.map((each) => Math.max(...(each[index] ?? [0]))))));
    return { label: category, x: isAcross ? top : middle, y: isAcross ? middle : top, values: valuesAt(chart, shown, index, locale) };
  });
  const hits = categories.map((_, index): Shape => {
    const [from, size] = [round(start(index)), round(band)];
    const place = isAcross ? { x: plot.left, width: plot.right - plot.left, y: from, height: size } : { x: from, width: size, y: plot.top, height: plot.bottom - plot.top };
    return { tag: "rect", is: { class: "hit", "data-at": index, ...place } };
  });
  const axis = valueAxis(scale, at, plot, isAcross, locale, chart.format);
  return { width, height, spots, shapes: [...axis, ...bands.shapes, ...titles({ x: named, y: counted }, plot, height), ...marks, ...hits] };
}

function valuesAt({ series, format }: PlainChart, shown: readonly number[], at: number, locale?: string): Spot["values"] {
  return shown.flatMap((index) => {
    const value = series[index]?.values[at];
    return value === null || value === undefined ? [] : [{ series: index, text: brief(value, locale, format) }];
  });
}

/** Labels below the bands: straight where they fit, turned where a line of text fits, else some of them left out. */
function lowLabels(categories: readonly string[], { left, bottom }: Plot, band: number): { readonly shapes: readonly Shape[]; readonly below: number } {
  const widest = Math.max(0, ...categories.map(widthOf));
  const middle = (at: number): number => round(left + (at + 0.5) * band);
  const isTurned = widest > band - 6 && band >= 17 && widest > 40;
  if (isTurned) {
    const most = Math.min(110, widest + 1);
    const shapes = categories.map((text, at) => {
      const [x, y] = [middle(at) + 4, bottom + 13];
      return label(text, Math.min(most, (x - 4) / 0.74), { x, y, "text-anchor": "end", transform: `rotate(-42 ${x} ${y})` });
    });
    return { shapes, below: Math.round(most * 0.68 + 14) };
  }
  const every = Math.max(1, Math.ceil((Math.min(widest, 90) + 8) / band));
  const shapes = categories.flatMap((text, at) => (at % every ? [] : [label(text, Math.max(24, band * every - 4), { x: middle(at), y: bottom + LINE, "text-anchor": "middle" })]));
  return { shapes, below: LINE };
}

function sideLabels(categories: readonly string[], { left, top }: Plot, band: number, most: number): readonly Shape[] {
  const every = Math.max(1, Math.ceil(LINE / band));
  return categories.flatMap((text, at) => (at % every ? [] : [label(text, most, { x: left - 7, y: round(top + (at + 0.5) * band + 4), "text-anchor": "end" })]));
}

interface Places {
  readonly at: (value: number) => number;
  readonly start: (index: number) => number;
  readonly band: number;
  readonly isStacked: boolean;
}

type Spans = readonly (readonly (readonly [number, number])[])[];
type Values = readonly (readonly (number | null)[])[];

function bars(values: Values, spans: Spans, shown: readonly number[], { at, start, band, isStacked, isAcross }: Places & { readonly isAcross: boolean }): readonly Shape[] {
  const lanes = isStacked ? 1 : Math.max(1, shown.length);
  const room = Math.min(band * (band < 12 ? 0.9 : 0.78), lanes * 56);
  return values.flatMap((each, n) =>
    each.flatMap((value, index): Shape[] => {
      if (value === null) return [];
      const [from, to] = (spans[n]?.[index] ?? [0, 0]).map(at).sort((a, b) => a - b) as [number, number];
      const lane = start(index) + (band - room) / 2 + (isStacked ? 0 : (n * room) / lanes);
      const [near, size] = [round(lane), round(Math.max(0.5, room / lanes - (lanes > 1 && band > 20 ? 1 : 0)))];
      const [low, long] = [round(from), round(to - from)];
      const place = isAcross ? { x: low, width: long, y: near, height: size } : { x: near, width: size, y: low, height: long };
      return [{ tag: "rect", is: { class: `bar ${colour(shown[n] as number)}`, rx: isStacked ? 0 : Math.min(3, round(size / 4)), ...place } }];
    }),
  );
}

function lines(type: string, values: Values, spans: Spans, shown: readonly number[], { at, start, band, isStacked }: Places): readonly Shape[] {
  const x = (index: number): number => round(start(index) + band / 2);
  const fills: Shape[] = [];
  const strokes: Shape[] = [];
  values.forEach((each, n) => {
    const index = shown[n] as number;
    const span = spans[n] ?? [];
    const kind = colour(index);
    for (const run of runs(each, isStacked)) {
      const top = run.map((place) => `${x(place)} ${round(at(span[place]?.[1] ?? 0))}`);
      const bottom = run.toReversed().map((place) => `${x(place)} ${round(at(span[place]?.[0] ?? 0))}`);
      if (type === "area") fills.push({ tag: "path", is: { class: `area ${kind}`, "fill-opacity": isStacked ? 0.75 : 0.22, d: `M${[...top, ...bottom].join("L")}Z` } });
      strokes.push({ tag: "path", is: { class: `line ${kind}`, "stroke-dasharray": DASHES[Math.floor(index / 4) % 4] || "none", d: `M${top.join("L")}` } });
      if (band < 14 && run.length > 1) continue;
      for (const place of run) strokes.push({ tag: "circle", is: { class: `dot ${kind}`, cx: x(place), cy: round(at(span[place]?.[1] ?? 0)), r: run.length > 1 ? 2.6 : 3.5 } });
    }
  });
  return [...fills, ...strokes];
}

/** Return the places of *values* as runs without a gap; one run where gaps are as nothing. */
export function runs(values: readonly (number | null)[], isWhole: boolean): readonly (readonly number[])[] {
  const all: number[][] = [];
  values.forEach((value, at) => {
    if (value === null && !isWhole) return;
    const last = all.at(-1);
    if (last?.at(-1) === at - 1) last.push(at);
    else all.push([at]);
  });
  return all;
}

function scatter({ series, x, y, format }: PlainChart, { width, hidden, locale }: View): Picture {
  const shown = series.map((each, index) => ({ ...each, index })).filter(({ index }) => !hidden.has(index));
  const all = shown.flatMap(({ points }) => points);
  const [across, up] = [0, 1].map((axis) => nice(...extent(all.map((each) => each[axis] as number), false), axis ? 5 : Math.max(2, Math.min(7, width / 80)))) as [Scale, Scale];
  const plot: Plot = { left: round(ticksWidth(up, locale, format) + (y ? 20 : 4)), right: width - 16, top: 10, bottom: width < 420 ? 210 : 270 };
  const height = plot.bottom + LINE + 8 + (x ? 20 : 0);
  const toX = (value: number): number => plot.left + ((value - across.low) / (across.high - across.low)) * (plot.right - plot.left);
  const toY = (value: number): number => plot.bottom - ((value - up.low) / (up.high - up.low)) * (plot.bottom - plot.top);
  const points = shown.flatMap(({ points, index, name }) => points.map(([a, b]) => ({ a, b, index, name })));
  const marks = points.map(({ a, b, index }, at): Shape => ({ tag: "circle", is: { class: `point ${colour(index)}`, "data-at": at, cx: round(toX(a)), cy: round(toY(b)), r: 4.5 } }));
  const spots = points.map(({ a, b, index, name }): Spot => ({
    label: series.length > 1 ? name : "",
    x: round(toX(a)),
    y: round(toY(b)),
    values: [{ series: index, text: `${x ?? "x"} ${brief(a, locale)}, ${y ?? "y"} ${brief(b, locale, format)}` }],
  }));
  const axes = [...valueAxis(across, toX, plot, true, locale), ...valueAxis(up, toY, plot, false, locale, format)];
  return { width, height, spots, shapes: [...axes, ...titles({ x, y }, plot, height), ...marks] };
}

/** Return the values of a pie that are drawn, zero for those that are not. */
export function slices({ series }: PlainChart, hidden: ReadonlySet<number>): readonly number[] {
  return (series[0]?.values ?? []).map((value, index) => (hidden.has(index) ? 0 : Math.max(0, value ?? 0)));
}

function pie(chart: PlainChart, { width, hidden, locale }: View): Picture {
  const parts = shares(slices(chart, hidden));
  const radius = Math.min(width / 2 - 10, 115);
  const [middle, height] = [width / 2, Math.round(radius * 2 + 16)];
  const centre = height / 2;
  const shapes: Shape[] = [];
  const spots: Spot[] = [];
  let turned = 0;
  parts.forEach((share, index) => {
    if (!share) return;
    const point = (turns: number, far: number): readonly [number, number] => [round(middle + far * Math.sin(turns * 2 * Math.PI)), round(centre - far * Math.cos(turns * 2 * Math.PI))];
    const [from, to, half] = [turned, (turned += share), turned - share / 2];
    const [start, end, inside] = [point(from, radius), point(to, radius), point(half, radius * 0.68)];
    const is = { class: `slice ${colour(index)}`, "data-at": spots.length };
    const arc = `M${round(middle)} ${centre}L${start.join(" ")}A${radius} ${radius} 0 ${share > 0.5 ? 1 : 0} 1 ${end.join(" ")}Z`;
    shapes.push(share > 0.9999 ? { tag: "circle", is: { ...is, cx: round(middle), cy: centre, r: radius } } : { tag: "path", is: { ...is, d: arc } });
    if (share >= 0.055) shapes.push({ tag: "text", is: { class: "share", x: inside[0], y: inside[1] + 4, "text-anchor": "middle" }, text: percent(share, locale) });
    const value = chart.series[0]?.values[index] ?? 0;
    spots.push({ label: chart.categories[index] ?? "", x: inside[0], y: inside[1], values: [{ series: index, text: `${brief(value, locale, chart.format)} (${percent(share, locale)})` }] });
  });
  return { width, height, shapes, spots };
}

/** Return *share* in percent, with a decimal where it is small. */
export function percent(share: number, locale?: string): string {
  return share.toLocaleString(locale, { style: "percent", maximumFractionDigits: share < 0.1 ? 1 : 0 });
}
