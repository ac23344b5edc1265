/** Calls that the page around the iframe executes: of the tools that it has named, and of no others. */

import type { ToolCallDetail } from "../embed/events.js";
import type { Bridge, CallOutput } from "./bridge.js";

export interface FramedCalls {
  /** From now on the page around executes the calls of *names*, those that wait for a page among them. */
  take(names: readonly string[]): void;
  /** Hand in what became of a call that was given to the page around; an output that cannot be sent is a failure. */
  hand(call: string, given: CallOutput): void;
}

/** Return the calls of *chat*, given to the page around by *post*. */
export function framedCalls(chat: EventTarget, post: Bridge["post"]): FramedCalls {
  const waiting = new Map<string, ToolCallDetail>();
  const given = new Map<string, ToolCallDetail>();
  let taken: readonly string[] = [];
  const give = (detail: ToolCallDetail): void => {
    const { call, run, name, arguments: said, argumentsText } = detail;
    waiting.delete(call);
    given.set(call, detail);
    post({ type: "parley:tool-call", call, run, name, arguments: said, argumentsText });
  };
  chat.addEventListener("parley:tool-call", (event) => {
    const { detail } = event as CustomEvent<ToolCallDetail>;
    if (!taken.includes(detail.name)) return void waiting.set(detail.call, detail);
    event.preventDefault();
    give(detail);
  });
  return {
    take(names) {
      taken = names;
      for (const detail of waiting.values()) if (names.includes(detail.name)) give(detail);
    },
    hand(call, outcome) {
      const detail = given.get(call);
      if (!detail) return;
      const handed = "error" in outcome ? detail.fail(outcome.error) : detail.respond(outcome.output);
      handed
        .catch((error: unknown) => detail.fail(String(error))) // messages carry what JSON does not
        .catch(() => false)
        .then((counted) => post({ type: "parley:tool-output", call, counted }));
    },
  };
}
