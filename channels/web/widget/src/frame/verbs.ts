/** What clicks and keys do, in one place: a button names its verb, and what it is about, by a data attribute. */

import type { Load } from "../lazy.js";
import { activeRun, type ViewState } from "../log/state.js";
import type { Actions } from "../talk/conversation.js";
import type { SentFile } from "../wire/upload.js";
import type { Strings } from "../words/strings.js";

/** Handle every click and key of the widget in one place. */
export function listen(node: HTMLElement, actions: Actions, stop: () => void, focus: () => void, signal: AbortSignal): void {
  const verbs: Readonly<Record<string, (value: string, target: HTMLElement) => void>> = {
    renew: () => (actions.renew(), focus()),
    reconnect: () => actions.reconnect(),
    dismiss: () => actions.dismiss(),
    resend: (key) => actions.resend(key),
    withdraw: (run) => actions.stop(run),
    again(text, { dataset: { asked, files } }) {
      if (asked) void actions.regenerate(asked); // in the place of what failed
      else actions.send(text, JSON.parse(files ?? "[]") as readonly SentFile[]);
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

/** Stop the run at work; one that people are asked about, once the person has said so in the place of *composer*. */
export function stopRun(view: ViewState, { stop }: Actions, composer: HTMLElement, load: Load, strings: Strings): void {
  const run = activeRun(view)?.id;
  if (!run) return;
  const now = (): void => stop(run);
  if (!view.calls.some((call) => call.run === run && call.approval?.status === "open")) now();
  else load("cards").then(({ confirm }) => confirm(composer, strings, now), now);
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
