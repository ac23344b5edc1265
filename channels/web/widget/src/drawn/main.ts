/** What draws tables and pictures of charts, loaded when the first of them is to be shown; plain charts need `charts` too. */

import type { Load } from "../lazy.js"; // a chunk knows no hashes: what loads others is given to it
import type { Request } from "../wire/client.js";
import type { Render } from "../log/state.js";
import { adopt } from "../styles/adopt.js";
import { merged, type Changes } from "../words/merge.js";
import css from "./drawn.css";
import { dataButton, frameOf } from "./frame.js";
import { chartOf, nameOf, tableFrom, tableOf, type PlainChart } from "./payload.js";
import { pictureNode } from "./picture.js";
import { saveFile } from "./save.js";
import { csvBlob, gridOf, tableNode } from "./table.js";
import { DRAWN, type DrawnStrings } from "./words.js";

export interface Drawing {
  readonly words: Changes<DrawnStrings> | undefined;
  readonly locale?: string;
  readonly request: Request;
  readonly load: Load;
}

/** Draw *render* in *host*, in the place of its text; what cannot be read stays text. */
export async function show(host: HTMLElement, render: Render, drawing: Drawing): Promise<void> {
  const node = await nodeOf(render, { ...merged(DRAWN, drawing.words), locale: drawing.locale }, drawing);
  if (!node || !adopt(host, css)) return;
  host.replaceChildren(node);
}

async function nodeOf(render: Render, words: DrawnStrings, { request, load }: Drawing): Promise<HTMLElement | null> {
  const { kind, title, payload } = render;
  if (kind === "table") {
    const table = tableOf(payload);
    return table && tableNode(table, title, words);
  }
  const chart = chartOf(payload);
  // The server's name is English: a page that replaces these words keeps its own.
  const name = words.kinds === DRAWN.kinds && words.chart === DRAWN.chart ? nameOf(render.text) : "";
  if (chart) return chartNode(chart, title ?? chart.title, name || words.kinds[chart.type], words, load);
  return payload["spec"] ? pictureNode(render, name || words.chart, request, words) : null;
}

/** Return *chart* as a figure called *title*, else *fallback*, with its data as a file and as a table. */
async function chartNode(chart: PlainChart, title: string | undefined, fallback: string, words: DrawnStrings, load: Load): Promise<HTMLElement> {
  const { drawChart } = await load("charts");
  const frame = frameOf(title, fallback, words);
  const [name, table] = [title ?? fallback, tableFrom(chart, words)];
  drawChart(chart, { frame, title, words, savePng: (picture) => saveFile(picture, name, "png") });
  frame.button(words.csv, words.saveCsv, () => saveFile(csvBlob(table), name, "csv"));
  frame.node.append(dataButton(frame, words, () => gridOf(table, name, words, frame.say).node));
  return frame.node;
}
