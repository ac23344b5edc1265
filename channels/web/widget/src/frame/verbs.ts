/** What clicks and keys do, in one place: a button names its verb, and what it is about, by a data attribute. */

import type { Actions } from "../talk/conversation.js";

/** Handle every click and key of the widget in one place. */
export function listen(node: HTMLElement, actions: Actions, stop: () => void, focus: () => void, signal: AbortSignal): void {
  const verbs: Readonly<Record<string, (value: string, target: HTMLElement) => void>> = {
    renew: () => (actions.renew(), focus()),
    reconnect: () => actions.reconnect(),
    dismiss: () => actions.dismiss(),
    resend: (key) => actions.resend(key),
    withdraw: (run) => actions.stop(run),
    again(text, { dataset: { asked } }) {
      if (asked) void actions.regenerate(asked); // in the place of what failed
      else actions.send(text);
      focus();
    },
    copy: (_value, target) => copy(target),
  };
  node.addEventListener("click", (event) => {
    const target = (event.target as Element).closest<HTMLElement>("button");
    for (const [name, value] of Object.entries(target?.dataset ?? {})) verbs[name]?.(value ?? "", target as HTMLElement);
  }, { signal });
  node.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !event.isComposing) stop();
  }, { signal });
}

/** Copy the code block that *button* is part of. */
export function copy(button: HTMLElement): void {
  const text = button.closest(".code")?.querySelector("pre")?.textContent ?? "";
  const mark = (): void => {
    button.classList.add("copied");
    setTimeout(() => button.classList.remove("copied"), 1500);
  };
  navigator.clipboard?.writeText(text).then(mark, () => undefined);
}
