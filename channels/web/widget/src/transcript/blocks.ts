/** The blocks of an answer: its texts, calls, renders and files, in the order in which people read them. Pure. */

import type { Deciding } from "../talk/deciding.js";
import type { Citation, FilePart, Part } from "../log/events.js";
import type { Call, Message, Render, ViewState } from "../log/state.js";

export type Block =
  | { readonly kind: "text" | "reasoning"; readonly key: string; readonly text: string; readonly open: boolean; readonly citations?: readonly Citation[] | undefined }
  | ToolBlock
  | { readonly kind: "render"; readonly key: string; readonly render: Render }
  | { readonly kind: "file"; readonly key: string; readonly file: FilePart };

/** A call, or several that follow each other, none of which people are asked about. */
export type ToolBlock =
  | { readonly kind: "tool"; readonly key: string; readonly call: Call; readonly deciding?: Deciding | undefined }
  | { readonly kind: "tools"; readonly key: string; readonly calls: readonly Call[] };

export type Calls = ReadonlyMap<string | null, readonly Call[]>;

export function groupCalls(calls: readonly Call[]): Calls {
  const groups = new Map<string | null, Call[]>();
  for (const call of calls) {
    const group = groups.get(call.message);
    if (group) group.push(call);
    else groups.set(call.message, [call]);
  }
  return groups;
}

export function blocksOf(message: Message, calls: readonly Call[], view: ViewState): Block[] {
  const named = new Set<string>();
  const blocks = message.parts.flatMap((part, index): Block[] => {
    if (part.type === "tool_call") named.add(part.call);
    return blockOf(part, `${message.id}:${index}`, message, calls, view);
  });
  const others = calls.filter((call) => !named.has(call.id));
  const shown = new Set(message.parts.map((part) => (part.type === "render" ? part.render : null)));
  const renders = view.renders.filter((render) => render.message === message.id && !shown.has(render.id));
  return [
    ...blocks,
    ...others.filter((call) => !isSaid(call, view)).map((call): Block => ({ kind: "tool", key: call.id, call })),
    ...renders.map((render): Block => ({ kind: "render", key: render.id, render })),
  ];
}

function blockOf(part: Part, key: string, message: Message, calls: readonly Call[], view: ViewState): Block[] {
  switch (part.type) {
    case "text":
      return part.text ? [{ kind: "text", key, text: part.text, open: message.open, ...(part.citations?.length && { citations: part.citations }) }] : [];
    case "reasoning":
      return part.text ? [{ kind: "reasoning", key, text: part.text, open: message.open }] : [];
    case "tool_call": {
      const call = calls.find((each) => each.id === part.call);
      return call && !isSaid(call, view) ? [{ kind: "tool", key: part.call, call }] : [];
    }
    case "render": {
      const render = view.renders.find((each) => each.id === part.render);
      return render ? [{ kind: "render", key, render }] : [];
    }
    case "file":
      return [{ kind: "file", key, file: part }];
    default:
      return [];
  }
}

/** Return whether *call* is seen by what it brought alone: suggestions are chips, and no news. */
function isSaid({ id, status }: Call, { renders }: ViewState): boolean {
  return status === "done" && renders.some(({ call, kind }) => call === id && kind === "suggestions");
}

/** Join the text of an answer that was cut with the text that continues it. */
export function joinCut(blocks: readonly Block[], group: readonly Message[]): readonly Block[] {
  const cut = new Set(group.filter(({ stop }) => stop === "length" || stop === "continue").map(({ id }) => id));
  if (!cut.size) return blocks;
  return blocks.reduce<Block[]>((joined, block) => {
    const last = joined.at(-1);
    const owner = last?.key.slice(0, last.key.lastIndexOf(":")) ?? "";
    if (last?.kind !== "text" || block.kind !== "text" || !cut.has(owner) || block.key.startsWith(`${owner}:`)) return [...joined, block];
    const next = block.key.slice(0, block.key.lastIndexOf(":"));
    if (cut.has(next)) cut.add(owner);
    else cut.delete(owner);
    return [...joined.slice(0, -1), { ...last, text: last.text + block.text, open: block.open, citations: joinCited(last, block) }];
  }, []);
}

type TextBlock = Extract<Block, { kind: "text" | "reasoning" }>;

/** Return the citations of both texts, for the one text that they become. */
function joinCited(one: TextBlock, next: TextBlock): readonly Citation[] | undefined {
  const by = [...one.text].length;
  const moved = next.citations?.map((each) => (each.end === undefined ? each : { ...each, start: (each.start ?? 0) + by, end: each.end + by }));
  return moved ? [...(one.citations ?? []), ...moved] : one.citations;
}

/** Let calls that follow each other be one block; one that people are asked about stays alone. */
export function folded(blocks: readonly Block[]): readonly Block[] {
  const made: Block[] = [];
  for (const block of blocks) {
    const last = made.at(-1);
    const [before, next] = [foldable(last), foldable(block)];
    if (last && before && next) made[made.length - 1] = { kind: "tools", key: last.key, calls: [...before, ...next] };
    else made.push(block);
  }
  return made;
}

function foldable(block: Block | undefined): readonly Call[] | null {
  if (block?.kind === "tools") return block.calls;
  return block?.kind === "tool" && !block.call.approval ? [block.call] : null;
}
