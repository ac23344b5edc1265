/** Which element a command of the page is for, and what it is to do. */

import type { Command } from "./commands.js";
import type { ParleyChat } from "./element.js";

export interface Addressed {
  /** A method of the element or `on`; empty for a function. */
  readonly method: string;
  /** Null while it is not on the page. */
  readonly chat: ParleyChat | null;
  readonly rest: readonly unknown[];
}

/** Return what *command* asks for. */
export function addressed(command: Command): Addressed {
  const [name, ...rest] = typeof command === "function" ? ["", command] : command;
  const [method, id] = name.split(":").reverse() as [string, string?];
  const chat = id === undefined ? document.querySelector("parley-chat") : document.getElementById(id);
  return { method, chat: chat && "newConversation" in chat ? (chat as ParleyChat) : null, rest };
}

/** Take each of *queue* out of it for which *done* is true; one that fails costs the others nothing. */
export function drain(queue: Command[], done: (command: Command) => boolean): void {
  for (const command of queue.splice(0)) {
    try {
      if (!done(command)) queue.push(command);
    } catch (error) {
      console.error(error);
    }
  }
}
