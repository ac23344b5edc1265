/** `window.parley`: what a page asks of its elements, also before the script has loaded. */

import { load } from "../lazy.js";
import { addressed, drain } from "./addressed.js";
import type { ParleyChat } from "./element.js";

/**
 * `["send", "Hello"]` calls a method of the first element of the page, `["support:open"]` one of the element with the id `support`,
 * `["on", "message", listener]` listens to `parley:message`, and a function is called with the first element.
 */
export type Command = readonly [method: string, ...rest: unknown[]] | ((chat: ParleyChat) => void);
export interface Commands {
  push(...commands: readonly Command[]): void;
}

let queue: Command[] = [];

/** Take over what the page has asked for so far; from now on it is done as soon as its element is there. */
export function takeCommands(): void {
  if (Array.isArray(window.parley)) queue = window.parley;
  window.parley = { push: (...given) => (queue.push(...given), runCommands()) };
}

/** Do what waits for an element that is on the page by now: it is listened to at once, before it says anything. */
export function runCommands(): void {
  drain(queue, (command) => {
    const { method, chat, rest } = addressed(command);
    if (method !== "on" || !chat) return false;
    chat.addEventListener(`parley:${String(rest[0])}`, rest[1] as EventListener);
    return true;
  });
  if (queue.length) void load("host").then(({ run }) => run(queue), (error: unknown) => console.error(error));
}

declare global {
  interface Window {
    parley?: Commands | Command[];
  }
}
