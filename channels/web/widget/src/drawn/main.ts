/** The second bundle: what draws tables and charts, loaded when the first of them is to be shown. */

import type { Request } from "../wire/client.js";
import type { Render } from "../log/state.js";
import { adopt } from "../styles/adopt.js";
import { merged, type Changes } from "../words/merge.js";
import { chartNode } from "./chart.js";
import css from "./drawn.css";
import { chartOf, nameOf, tableOf } from "./payload.js";
import { pictureNode } from "./picture.js";
import { tableNode } from "./table.js";
import { DRAWN, type DrawnStrings } from "./words.js";

export interface Drawing {
  readonly words: Changes<DrawnStrings> | undefined;
  readonly locale?: string;
  readonly request: Request;
}

/** Draw *render* in *host*, in the place of its text; what cannot be read stays text. */
export function show(host: HTMLElement, render: Render, drawing: Drawing): void {
  const node = nodeOf(render, { ...merged(DRAWN, drawing.words), locale: drawing.locale }, drawing.request);
  if (!node || !adopt(host, css)) return;
  host.replaceChildren(node);
}

function nodeOf(render: Render, words: DrawnStrings, request: Request): HTMLElement | null {
  const { kind, title, payload } = render;
  if (kind === "table") {
    const table = tableOf(payload);
    return table && tableNode(table, title, words);
  }
  const chart = chartOf(payload);
  // The server's name is English: a page that replaces these words keeps its own.
  const name = words.kinds === DRAWN.kinds && words.chart === DRAWN.chart ? nameOf(render.text) : "";
  if (chart) return chartNode(chart, title ?? chart.title, name || words.kinds[chart.type], words);
  return payload["spec"] ? pictureNode(render, name || words.chart, request, words) : null;
}
