/** A page without a browser: a window of jsdom whose names are the global ones while a test runs. */

import { test } from "node:test";
import { JSDOM } from "jsdom";

const NAMES = ["window", "document", "CustomEvent", "HTMLElement", "ShadowRoot", "HTMLDialogElement", "Element", "Node", "customElements", "localStorage", "requestAnimationFrame", "addEventListener", "MutationObserver", "AbortController", "AbortSignal", "location"] as const;

export interface TestPage {
  readonly window: JSDOM["window"];
  /** Whether the page is as narrow as a phone. */
  phone(is: boolean): void;
  /** Test with this page as the one that is meant by the global names; all files run in one process. */
  test(name: string, run: () => unknown): void;
}

/** Return a page at *url*, whose requests are answered by *ask*. */
export function testPage(url: string, ask: typeof fetch): TestPage {
  const { window } = new JSDOM("<!doctype html><body>", { url, pretendToBeVisual: true });
  const media = Object.assign(new window.EventTarget(), { matches: false });
  // What jsdom lacks: dialogs are open or not, and sheets hold nothing.
  window.HTMLDialogElement.prototype.show ??= function (this: HTMLDialogElement) { this.open = true; };
  window.HTMLDialogElement.prototype.showModal ??= function (this: HTMLDialogElement) { this.open = true; this.setAttribute("data-modal", ""); };
  window.HTMLDialogElement.prototype.close ??= function (this: HTMLDialogElement) { this.open = false; this.removeAttribute("data-modal"); };
  const use = (): void => {
    for (const name of NAMES) {
      const value = window[name] as unknown;
      const bound = typeof value === "function" && /^[a-z]/.test(name) ? value.bind(window) : value;
      Object.defineProperty(globalThis, name, { value: bound, configurable: true, writable: true });
    }
    const resizes = class { observe(): void {} unobserve(): void {} disconnect(): void {} };
    Object.assign(globalThis, { CSSStyleSheet: class { replaceSync(): void {} }, ResizeObserver: resizes, fetch: ask, matchMedia: () => media });
  };
  use();
  const onPage = (name: string, run: () => unknown): void => {
    void test(name, async () => {
      use();
      await run();
    });
  };
  return { window, test: onPage, phone: (is) => (Object.assign(media, { matches: is }), void media.dispatchEvent(new window.Event("change"))) };
}

/** Wait until *found* gives something. */
export async function until<T>(found: () => T | null | undefined | false): Promise<T> {
  for (let tries = 0; tries < 400; tries += 1) {
    const value = found();
    if (value) return value;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  throw new Error(`never: ${found}`);
}
