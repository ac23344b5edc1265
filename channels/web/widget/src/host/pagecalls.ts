/** Calls that the page executes: offered by an event, answered by what the page hands in. */

import type { Call } from "../log/state.js";
import { askAlone } from "../talk/calls.js";
import type { Output } from "../wire/client.js";
import { raise, type ToolCallDetail } from "../embed/events.js";

export interface PageCalls {
  /** Let the page execute a call, unless another tab's does or this one has taken it already. */
  offer(call: Call, isOpen: () => boolean, server: string, waiting: AbortSignal): void;
  /** Hand in what became of a call that was offered; whether it counted. */
  hand(call: string, output: Output): Promise<boolean>;
  /** Leave what was taken to other tabs: the element is not on the page any more. */
  leave(): void;
}

/** Return the calls of *host*; *deliver* hands an output to the server, and returns whether it counted. */
export function pageCalls(host: HTMLElement, deliver: (run: string, output: Output) => Promise<boolean>): PageCalls {
  const runs = new Map<string, string>();
  /** Calls that the page has taken, kept from other tabs while the element is on it, however often it begins again. */
  const taken = new Set<string>();
  let presence = new AbortController();

  const hand = async (call: string, output: Output): Promise<boolean> => {
    const run = runs.get(call);
    return run !== undefined && deliver(run, output);
  };
  /** Notify the page of a call; whether it takes it with `preventDefault`, to answer then or later. */
  const ask = ({ id: call, run, name, arguments: given = {} }: Call): boolean => {
    if (run === null) return false;
    runs.set(call, run);
    const respond = (output: unknown): Promise<boolean> => hand(call, { call, output });
    const fail = (message: string): Promise<boolean> => hand(call, { call, error: message });
    const argumentsText = JSON.stringify(given);
    const plain = JSON.parse(argumentsText) as ToolCallDetail["arguments"]; // a page wants numbers
    return !raise(host, "parley:tool-call", { call, run, name, arguments: plain, argumentsText, respond, fail }, true);
  };

  return {
    hand,
    offer(call, isOpen, server, waiting) {
      const name = `parley-chat ${new URL(`${server}/`, location.href).href} ${call.run} ${call.id}`;
      if (taken.has(name)) return;
      const take = (): boolean => {
        const isTaken = isOpen() && ask(call);
        if (isTaken) taken.add(name);
        return isTaken;
      };
      void askAlone(navigator.locks, { name, ask: take, waiting, gone: presence.signal });
    },
    leave() {
      presence.abort();
      presence = new AbortController();
      taken.clear();
    },
  };
}
