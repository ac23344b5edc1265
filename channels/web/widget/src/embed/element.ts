/** `<parley-chat>`: the custom element; see `define.ts` for its registration and `styles.css` for its properties. */

import { askAlone } from "../talk/calls.js";
import { createClient, type Output } from "../wire/client.js";
import { converse, type Actions } from "../talk/conversation.js";
import { pause } from "../wire/pause.js";
import { load } from "../lazy.js";
import type { Call } from "../log/state.js";
import { browserMemory } from "../talk/storage.js";
import { merged, type Changes } from "../words/merge.js";
import { STRINGS, type Strings } from "../words/strings.js";
import { styleSheet } from "../styles/styles.js";
import { tokenSource, type GetToken } from "../wire/token.js";
import { createView, type View } from "../frame/view.js";

const WIRED = ["server", "agent", "token", "token-url", "storage-key"] as const;
const WORDS = ["heading", "greeting", "placeholder"] as const;

/** The detail of the event `parley:tool-call`: a call that the page is to execute. */
export interface ToolCallDetail {
  readonly call: string;
  readonly run: string;
  readonly name: string;
  readonly arguments: Readonly<Record<string, unknown>>;
  /** The same as JSON, with every digit of numbers that JavaScript rounds. */
  readonly argumentsText: string;
  /** Hand in the output, text or anything that JSON holds; whether it counted. */
  respond(output: unknown): Promise<boolean>;
  /** Report to the assistant that it did not work, and why. */
  fail(message: string): Promise<boolean>;
}

export class ParleyChat extends HTMLElement {
  static readonly observedAttributes: readonly string[] = [...WIRED, ...WORDS];

  #getToken: GetToken | null = null;
  #strings: Strings = STRINGS;
  #view: View | null = null;
  #life: AbortController | null = null;
  #restarting = false;
  #actions: Actions | null = null;
  readonly #calls = new Map<string, string>();
  /** Calls that the page has taken, kept from other tabs while the element is on it, however often it begins again. */
  readonly #taken = new Set<string>();
  #presence = new AbortController();

  constructor() {
    super();
    this.attachShadow({ mode: "open" }).adoptedStyleSheets = [styleSheet()];
  }

  /** Gives the visitor's token, before `token-url` and `token` are looked at. */
  get getToken(): GetToken | null {
    return this.#getToken;
  }
  set getToken(value: GetToken | null) {
    this.#getToken = value;
    this.#restart();
  }

  /** Words that replace the widget's own, all or some of them. */
  get strings(): Changes<Strings> {
    return this.#strings;
  }
  set strings(value: Changes<Strings>) {
    this.#strings = merged<Strings>(STRINGS, value);
    this.#restart();
  }

  connectedCallback(): void {
    this.#upgrade("getToken");
    this.#upgrade("strings");
    if (!this.#life) this.#start();
  }

  /** A move within the page disconnects and connects at once, and must end nothing. */
  disconnectedCallback(): void {
    queueMicrotask(() => {
      if (this.isConnected) return;
      this.#stop();
      this.#presence.abort();
      this.#presence = new AbortController();
      this.#taken.clear();
    });
  }

  attributeChangedCallback(name: string, before: string | null, after: string | null): void {
    if (before === after) return;
    if ((WORDS as readonly string[]).includes(name)) this.#label();
    else this.#restart();
  }

  /** Hand in what became of a call that a `parley:tool-call` reported; whether it counted. */
  submitToolOutput(call: string, output: unknown): Promise<boolean> {
    return this.#hand(call, { call, output });
  }

  override focus(): void {
    this.#view?.focus();
  }

  #start(): void {
    this.#life = new AbortController();
    const { signal } = this.#life;
    const server = (this.getAttribute("server") ?? "").replace(/\/+$/, "");
    const agent = this.getAttribute("agent");
    const ask = fetch.bind(globalThis);
    const source = { token: this.getAttribute("token"), url: this.getAttribute("token-url"), getToken: this.#getToken };
    const tokens = tokenSource({ ...source, fetch: ask, signal, now: Date.now });
    const client = createClient({ server, tokens, fetch: ask, pause, random: Math.random });
    const memory = browserMemory(this.getAttribute("storage-key") ?? `parley:${server}:${agent ?? ""}`);
    const view: { current: View | null } = { current: null };
    const called = (call: Call, isOpen: () => boolean): void => this.#offer(call, isOpen, server, signal);
    const actions = converse({ client, agent, memory, signal, newKey, called, changed: (each) => view.current?.show(each) });
    this.#actions = actions;
    this.#view = view.current = createView({ strings: this.#strings, actions, request: client.request, access: client.access, load, signal });
    this.#label();
    this.shadowRoot?.replaceChildren(this.#view.node);
    actions.start();
  }

  /** Let the page execute a call, unless another tab's does or this one has taken it already. */
  #offer(call: Call, isOpen: () => boolean, server: string, waiting: AbortSignal): void {
    const name = `parley-chat ${new URL(`${server}/`, location.href).href} ${call.run} ${call.id}`;
    if (this.#taken.has(name)) return;
    const ask = (): boolean => {
      const isTaken = isOpen() && this.#raise(call);
      if (isTaken) this.#taken.add(name);
      return isTaken;
    };
    void askAlone(navigator.locks, { name, ask, waiting, gone: this.#presence.signal });
  }

  /** Notify the page of a call; whether it takes it with `preventDefault`, to answer then or later. */
  #raise({ id: call, run, name, arguments: given = {} }: Call): boolean {
    if (run === null) return false;
    this.#calls.set(call, run);
    const respond = (output: unknown): Promise<boolean> => this.submitToolOutput(call, output);
    const fail = (message: string): Promise<boolean> => this.#hand(call, { call, error: message });
    const argumentsText = JSON.stringify(given);
    const plain = JSON.parse(argumentsText) as ToolCallDetail["arguments"]; // a page wants numbers
    const detail: ToolCallDetail = { call, run, name, arguments: plain, argumentsText, respond, fail };
    return !this.dispatchEvent(new CustomEvent("parley:tool-call", { detail, bubbles: true, composed: true, cancelable: true }));
  }

  async #hand(call: string, output: Output): Promise<boolean> {
    const run = this.#calls.get(call);
    return run !== undefined && this.#actions !== null && this.#actions.output(run, output);
  }

  #stop(): void {
    this.#life?.abort();
    this.#actions = null;
    this.#life = null;
    this.#view = null;
    this.shadowRoot?.replaceChildren();
  }

  /** Begin again with what is set now; several changes at once cost one restart. */
  #restart(): void {
    if (!this.#life || this.#restarting) return;
    this.#restarting = true;
    queueMicrotask(() => {
      this.#restarting = false;
      if (!this.#life) return;
      this.#stop();
      if (this.isConnected) this.#start();
    });
  }

  #label(): void {
    const word = (name: (typeof WORDS)[number]): string => this.getAttribute(name) ?? this.#strings[name];
    this.#view?.label({ heading: word("heading"), greeting: word("greeting"), placeholder: word("placeholder") });
  }

  /** A property set before the element was defined hides the accessor until it is set again. */
  #upgrade(name: "getToken" | "strings"): void {
    if (!Object.hasOwn(this, name)) return;
    const value = this[name];
    delete (this as Partial<Record<typeof name, unknown>>)[name];
    Object.assign(this, { [name]: value });
  }
}

/** Return an idempotency key; `randomUUID` is missing on pages that are not served securely. */
function newKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
