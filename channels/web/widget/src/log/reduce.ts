/** The pure fold: what the browser shows is `frames.reduce(reduce, EMPTY)`. */

import type { Delta, Frame, KnownFrame, Part } from "./events.js";
import type { Approval, Call, Message, Run, ViewState } from "./state.js";

/**
 * Fold *frame* into *state*.
 *
 * A fact at or below `state.seq` changes nothing, so overlapping reads are harmless; unknown types and child runs are passed over.
 */
export function reduce(state: ViewState, frame: Frame): ViewState {
  if (frame.seq !== undefined && frame.seq <= state.seq) return state;
  const next = (frame.parent_run ?? null) === null ? apply(state, frame as KnownFrame) : state;
  return frame.seq === undefined ? next : { ...next, seq: frame.seq };
}

function apply(state: ViewState, frame: KnownFrame): ViewState {
  switch (frame.type) {
    case "text.delta":
      return write(state, frame.data, "text", frame.run);
    case "reasoning.delta":
      return write(state, frame.data, "reasoning", frame.run);
    case "message.received":
    case "message.corrected":
    case "message.completed":
      return applyMessage(state, frame);
    case "step.failed":
      return retry(state, frame.run, frame.data.retryable);
    case "step.started":
      return startStep(sees(retry(state, frame.run, frame.data.attempt > 1), frame.data, frame.run), frame.data.message, frame.data.takes ?? [], frame.run);
    case "tool.requested":
    case "tool.started":
    case "tool.progress":
    case "tool.pending":
    case "tool.completed":
      return applyTool(state, frame);
    case "approval.requested":
    case "approval.voted":
    case "approval.decided": {
      const known = frame.type === "approval.requested" ? expect(state, frame.data.call, frame.data.tool, frame.run) : state;
      return { ...known, calls: change(known.calls, frame.data.call, (call) => ask(call, frame)) };
    }
    case "render.shown":
      return draw(state, frame);
    default:
      return applyRun(state, frame);
  }
}

type FrameOf<P extends string> = Extract<KnownFrame, { type: P }>;
type MessageFrame = FrameOf<"message.received" | "message.corrected" | "message.completed">;
type ToolFrame = FrameOf<"tool.requested" | "tool.started" | "tool.progress" | "tool.pending" | "tool.completed">;
type AskFrame = FrameOf<"approval.requested" | "approval.voted" | "approval.decided">;
type RunFrame = Exclude<KnownFrame, MessageFrame | ToolFrame | AskFrame>;

function applyMessage(state: ViewState, frame: MessageFrame): ViewState {
  const { message: id, parts } = frame.data;
  switch (frame.type) {
    case "message.received": {
      const steered = find(state.runs, frame.run) !== undefined;
      const message: Message = { ...blank(id, "user", frame.run), seq: frame.seq ?? 0, time: timeOf(frame), parts: parts.map((part) => (part.type === "tool_call" ? { type: "text", text: part.name } : part)), pending: true, steered, open: false };
      return { ...state, messages: [...state.messages, message] };
    }
    case "message.corrected": {
      const isGone = (each: Message): boolean => each.id === id && each.pending && !parts.length;
      if (state.messages.some(isGone)) return { ...state, messages: state.messages.filter((each) => !isGone(each)) };
      if (state.begin && !find(state.messages, id)) return { ...state, corrections: { ...state.corrections, [id]: parts } };
      return { ...state, messages: change(state.messages, id, (message) => ({ ...message, parts })) };
    }
    case "message.completed": {
      const { role, stop, partial = false, actor: by } = frame.data;
      const known = find(state.messages, id) ? state : begin(state, blank(id, role, frame.run));
      const done = { seq: frame.seq ?? 0, time: timeOf(frame), parts, stop, partial, open: false, ...(by && { by }) };
      return expectCalls({ ...known, messages: change(known.messages, id, (message) => ({ ...message, ...done })) }, id, frame.run);
    }
  }
}

function applyTool(state: ViewState, frame: ToolFrame): ViewState {
  const { call: id } = frame.data;
  const set = (changes: Partial<Call>): ViewState => setCall(state, id, changes);
  switch (frame.type) {
    case "tool.requested":
      if (frame.data.step === 0) state = takeFirst(state, frame.run);
      return setCall(expect(state, id, frame.data.name, frame.run), id, { name: frame.data.name, title: frame.data.title, titleDone: frame.data.title_done, ...argumentsOf(frame.data) });
    case "tool.started":
      return set({ status: "running", began: Date.parse(frame.time) });
    case "tool.pending":
      return setCall(expect(state, id, frame.data.tool, frame.run), id, { status: "waiting", on: frame.data.on, ...argumentsOf(frame.data) });
    case "tool.progress":
      return find(state.calls, id)?.status === "running" ? set({ progress: frame.data.text }) : state;
    case "tool.completed": {
      const { outcome, parts, truncated } = frame.data;
      const began = find(state.calls, id)?.began;
      return set({ status: outcome, seconds: began && Math.round((Date.parse(frame.time) - began) / 1000), ...(parts && { result: parts }), ...(truncated && { truncated }) });
    }
  }
}

/** Let a person's message, which made a call itself, be taken before any step takes it. */
function takeFirst(state: ViewState, run: string | null): ViewState {
  const waits = waiting(state.messages).filter((each) => each.run === run).map(({ seq }) => seq);
  return waits.length ? startStep(state, `${run}.0`, waits, run) : state;
}

/** Show a render in the message of its call, which a reader may not know: then in the newest answer of its run. */
function draw(state: ViewState, { run, data }: FrameOf<"render.shown">): ViewState {
  const { render: id, ...rest } = data;
  const newest = state.messages.findLast((each) => each.role === "assistant" && each.run === run);
  const message = find(state.calls, data.call)?.message ?? newest?.id ?? null;
  return { ...state, renders: put(state.renders, { id, message, ...rest }) };
}

function setCall(state: ViewState, id: string, changes: Partial<Call>): ViewState {
  return { ...state, calls: change(state.calls, id, (call) => ({ ...call, ...changes })) };
}

/** Let the call *id* be there: a reader may see what becomes of a call without having seen its request. */
function expect(state: ViewState, id: string, name: string | undefined, run: string | null): ViewState {
  if (name === undefined || find(state.calls, id)) return state;
  const message = state.messages.findLast((each) => each.role === "assistant" && each.run === run);
  return { ...state, calls: [...state.calls, { id, run, message: message?.id ?? null, name, status: "requested" }] };
}

function argumentsOf({ arguments: given }: { arguments?: Call["arguments"] }): Partial<Call> {
  return given ? { arguments: given } : {};
}

function ask(call: Call, frame: AskFrame): Call {
  const given = frame.data.arguments && { arguments: frame.data.arguments };
  switch (frame.type) {
    case "approval.requested": {
      const { approval: id, tool, title, detail, responders, quorum, timeout_s, edit = false, remember = false, may_decide, form, parameters } = frame.data;
      const schema = form ?? parameters;
      const until = Date.parse(frame.time) + timeout_s * 1000;
      const open = { status: "open", yes: 0, edited: false } as const;
      return { ...call, approval: { id, tool, title, ...(detail && { detail }), ...given, responders, quorum, until, edit, remember, ...(schema && { schema }), ...(form && { isForm: true }), ...(may_decide !== undefined && { mayDecide: may_decide }), ...open } };
    }
    case "approval.voted": {
      const { votes: yes, edited = false } = frame.data;
      return asked(call, { ...given, yes, edited });
    }
    case "approval.decided": {
      const { status, by, reason, edited = false } = frame.data;
      return asked(call, { ...given, status, edited, ...(by && { by }), ...(reason && { reason }), at: Date.parse(frame.time) });
    }
  }
}

function asked(call: Call, changes: Partial<Approval>): Call {
  return call.approval ? { ...call, approval: { ...call.approval, ...changes } } : call;
}

function applyRun(state: ViewState, frame: RunFrame): ViewState {
  const id = frame.run;
  if (id === null) return state;
  const set = (changes: Partial<Run>): ViewState => {
    const fresh: Run = { id, status: "queued", started: false, cancelling: false };
    return { ...state, runs: put(state.runs, { ...(find(state.runs, id) ?? fresh), ...changes }) };
  };
  switch (frame.type) {
    case "run.queued":
      return hand(set({ status: "queued" }), id, ({ seq }) => frame.data.inputs?.includes(seq) ?? false);
    case "run.started":
    case "run.resumed":
      return set({ status: "running", started: true });
    case "content.left_out":
      return set({ leftOut: [...(find(state.runs, id)?.leftOut ?? []), ...(frame.data.names ?? [])] });
    case "run.waiting":
      return set({ status: frame.data.on.includes("client") ? "requires_action" : "waiting" });
    case "run.cancelling":
      return hand(set({ cancelling: true }), id, ({ run }) => run === id && frame.data.clears === true);
    case "run.completed":
      return settle(set({ status: "completed", cancelling: false, stopReason: frame.data.stop_reason }), id);
    case "run.cancelled":
      return settle(set({ status: "cancelled", cancelling: false }), id);
    case "run.failed": {
      const { code, message, retryable = true } = frame.data;
      return settle(set({ status: "failed", cancelling: false, code, error: message, retryable }), id);
    }
    default:
      return state;
  }
}

/** Put *delta* where it belongs: `shown[:offset] + text`, after clearing what an older try wrote. */
function write(state: ViewState, delta: Delta, type: "text" | "reasoning", run: string | null): ViewState {
  const message = find(state.messages, delta.message);
  if (!message) return write({ ...state, messages: insert(state.messages, blank(delta.message, "assistant", run)) }, delta, type, run);
  const newer = delta.epoch - message.epoch || delta.attempt - message.attempt;
  if (!message.open || newer < 0) return state;
  const parts: Part[] = newer > 0 ? [] : [...message.parts];
  while (parts.length < delta.part) parts.push({ type: "text", text: "" });
  const shown = parts[delta.part];
  const before = shown?.type === type ? sliceTo(shown.text, delta.offset) : "";
  parts[delta.part] = { type, text: before + delta.text };
  const { epoch, attempt } = delta;
  return { ...state, messages: change(state.messages, message.id, (each) => ({ ...each, parts, epoch, attempt })) };
}

/** Note whether *run* is trying the model once more. */
function retry(state: ViewState, run: string | null, trying: boolean): ViewState {
  return run === null || !find(state.runs, run)?.trying === !trying ? state : { ...state, runs: change(state.runs, run, (each) => ({ ...each, trying })) };
}

/** Note whether the model of a step sees the pictures that the messages of *run* came with. */
function sees(state: ViewState, { takes = [], vision = true }: FrameOf<"step.started">["data"], run: string | null): ViewState {
  const known = find(state.runs, run);
  const isPicture = (part: Part): boolean => part.type === "file" && part.mime.startsWith("image/");
  const pictured = known?.pictured || waiting(state.messages).some(({ seq, parts }) => takes.includes(seq) && parts.some(isPicture));
  return known && pictured ? { ...state, runs: change(state.runs, known.id, (each) => ({ ...each, pictured, unseen: !vision })) } : state;
}

/** Open the step's message after the messages that the step takes. */
function startStep(state: ViewState, id: string, takes: readonly number[], run: string | null): ViewState {
  const isTaken = (each: Message): boolean => takes.includes(each.seq);
  const waits = waiting(state.messages);
  const taken = waits.filter(isTaken).map((each) => ({ ...each, pending: false }));
  const at = state.messages.findLastIndex((each) => each.id === id);
  const added = at < 0 ? [...taken, blank(id, "assistant", run)] : taken;
  if (!added.length) return state;
  const messages = state.messages.slice(0, -waits.length || undefined);
  messages.splice(at < 0 ? messages.length : at, 0, ...added);
  messages.push(...waits.filter((each) => !isTaken(each)));
  return { ...state, messages };
}

/** Let *run* have waiting messages as its own, those that are *meant*: if no step of it takes them, they end with it. */
function hand(state: ViewState, run: string, meant: (message: Message) => boolean): ViewState {
  if (!waiting(state.messages).some(meant)) return state;
  return { ...state, messages: state.messages.map((each) => (each.pending && meant(each) ? { ...each, run, steered: false } : each)) };
}

/** Show an answer that no step began, as when a hook refused the question, which comes before it. */
function begin(state: ViewState, message: Message): ViewState {
  const known = message.role === "assistant" && message.run !== null ? settle(state, message.run) : state;
  return { ...known, messages: insert(known.messages, message) };
}

/** Give up on *run*'s own messages that no step took; they come after what was taken, in their order. */
function settle(state: ViewState, run: string): ViewState {
  const isLost = (each: Message): boolean => each.pending && each.run === run && !each.steered;
  const lost = waiting(state.messages).filter(isLost).map((each) => ({ ...each, pending: false, missed: true }));
  if (!lost.length) return state;
  const rest = state.messages.filter((each) => !isLost(each));
  const [from, to] = [rest.findLastIndex(({ role }) => role === "assistant") + 1, firstWaiting(rest)];
  const after = [...rest.slice(from, to), ...lost].sort((one, other) => one.seq - other.seq);
  return { ...state, messages: rest.toSpliced(from, to - from, ...after) };
}

/** Show the calls that a message asks for before their `tool.requested`. */
function expectCalls(state: ViewState, message: string, run: string | null): ViewState {
  const calls = find(state.messages, message)?.parts.flatMap((part): Call[] => {
    if (part.type !== "tool_call" || find(state.calls, part.call)) return [];
    return [{ id: part.call, run, message, name: part.name, status: "requested", ...(part.arguments && { arguments: part.arguments }) }];
  });
  return calls?.length ? { ...state, calls: [...state.calls, ...calls] } : state;
}

function blank(id: string, role: Message["role"], run: string | null): Message {
  const nothing = { seq: 0, time: 0, parts: [], pending: false, steered: false, missed: false, partial: false, stop: null, epoch: 0, attempt: 0 };
  return { id, role, run, open: true, ...nothing };
}

/** Add *added* before the messages that still wait to be taken. */
function insert(messages: readonly Message[], ...added: Message[]): readonly Message[] {
  return messages.toSpliced(firstWaiting(messages), 0, ...added);
}

/** Return where the messages begin that no step has taken yet: they are the last ones. */
function firstWaiting(messages: readonly Message[]): number {
  return messages.findLastIndex((message) => !message.pending) + 1;
}

function waiting(messages: readonly Message[]): readonly Message[] {
  return messages.slice(firstWaiting(messages));
}

/** Return when *frame* was written, in milliseconds; 0 where it does not say. */
function timeOf({ time }: Frame): number {
  return Date.parse(time) || 0;
}

/** Return the first *points* code points of *text*. */
function sliceTo(text: string, points: number): string {
  if (points >= text.length) return text;
  let units = 0;
  for (let n = 0; n < points && units < text.length; n += 1) units += (text.codePointAt(units) ?? 0) > 0xffff ? 2 : 1;
  return text.slice(0, units);
}

interface Keyed {
  readonly id: string;
}

/** Return the item *id*; from the end, where it is in a long conversation. */
function find<T extends Keyed>(list: readonly T[], id: string | null): T | undefined {
  return list.findLast((each) => each.id === id);
}

function change<T extends Keyed>(list: readonly T[], id: string, to: (item: T) => T): readonly T[] {
  const at = list.findLastIndex((each) => each.id === id);
  if (at < 0) return list;
  const changed = list.slice(); // many times faster than `with`
  changed[at] = to(list[at] as T);
  return changed;
}

function put<T extends Keyed>(list: readonly T[], item: T): readonly T[] {
  const changed = change(list, item.id, () => item);
  return changed === list ? [...list, item] : changed;
}
