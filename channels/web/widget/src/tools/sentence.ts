/** Calls of tools in words: what they do, and how they stand. */

import { h } from "../dom.js";
import type { Call } from "../log/state.js";
import { hidden } from "../transcript/scene.js";
import { inWords } from "../words/spoken.js";
import type { ToolStrings } from "./words.js";

/** What the line of some calls says: a sentence, a state for its icon, and more beside it. */
export interface Line {
  readonly said: string;
  readonly state: Call["status"];
  readonly more: readonly (Node | string)[];
}

/** Several calls are said as the newest that is not over; once all are, how many there were, and what went wrong. */
export function lineOf(calls: readonly Call[], strings: ToolStrings): Line {
  const one = calls.length > 1 ? calls.findLast(isOpen) : calls[0];
  if (one) return { said: sentence(one), state: one.status, more: stateOf(one, strings) };
  const bad = calls.filter(({ status }) => status !== "done");
  const state = bad[0]?.status ?? "done";
  const { used, counted } = strings.tools;
  const more = bad.length ? [counted.replace("{n}", numberIn(bad.length, strings)).replace("{state}", strings.tool[state])] : [];
  return { said: used.replace("{n}", numberIn(calls.length, strings)), state, more };
}

function isOpen({ status }: Call): boolean {
  return status === "requested" || status === "running" || status === "waiting";
}

/** Return what *call* does, or did, in words. */
export function sentence({ status, name, title, titleDone }: Call): string {
  return (status === "done" && titleDone) || title || inWords(name);
}

/** Return how *call* stands, beside its sentence: what an icon shows is for readers of the screen alone. */
export function stateOf(call: Call, strings: ToolStrings): readonly (Node | string)[] {
  const { status, progress, seconds } = call;
  if (status === "running" && progress) return [h("bdi", {}, progress)];
  const word = status === "waiting" && call.on === "client" ? strings.onPage : strings.tool[status];
  const isSeen = status === "done" || status === "running" || status === "requested"; // by the icon
  return [isSeen ? hidden(word) : word, seconds ? h("span", {}, strings.tools.seconds.replace("{n}", numberIn(seconds, strings))) : ""];
}

function numberIn(number: number, { locale }: ToolStrings): string {
  return new Intl.NumberFormat(locale).format(number);
}
