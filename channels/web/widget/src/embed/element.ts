/** `<parley-chat>`: the custom element; see `define.ts` for its registration and `styles.css` for its properties. */

import { load } from "../lazy.js";
import type { Observe, PageCalls } from "../host/main.js";
import type { Launcher } from "../launcher/main.js";
import { merged, type Changes } from "../words/merge.js";
import { wordsFor } from "../words/language.js";
import { STRINGS, type Strings } from "../words/strings.js";
import { styleSheet } from "../styles/styles.js";
import type { StartPrompt } from "../talk/face.js";
import type { GetToken, TokenSource } from "../wire/token.js";
import { OBSERVED, QUIET, reflect, WORDS, type Properties } from "./attributes.js";
import { runCommands } from "./commands.js";
import { raise, type ParleyEventMap } from "./events.js";
import { contextText, type HeldContext, type PageContext } from "./context.js";
import { isRemembered, tokensOf, wire, type HeldToken, type Wired } from "./wiring.js";

export class ParleyChat extends HTMLElement {
  static readonly observedAttributes = OBSERVED;

  #getToken: GetToken | null = null;
  readonly #held: HeldToken = { token: null };
  readonly #context: HeldContext = { current: null };
  #strings: Changes<Strings> | undefined = undefined;
  #prompts: readonly StartPrompt[] | null = null;
  /** All words, in the language of the page; null while they are loaded. */
  #words: Strings | null = null;
  readonly #waiting: ((wired: Wired) => void)[] = [];
  /** Ends what the element does between being put on the page, or set up otherwise, and the end of that. */
  #life: AbortController | null = null;
  #tokens: TokenSource | null = null;
  #restarting = false;
  #wired: Wired | null = null;
  #launcher: Launcher | null = null;
  #observe: Observe = () => undefined;
  /** Calls that the page executes, from the first on. */
  #calls: Promise<PageCalls> | null = null;

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
    return merged<Strings>(STRINGS, this.#strings);
  }
  set strings(value: Changes<Strings>) {
    this.#strings = value;
    this.#restart();
  }

  /** What people may ask first, in place of the agent's prompts. */
  get prompts(): readonly StartPrompt[] | null {
    return this.#prompts;
  }
  set prompts(value: readonly StartPrompt[] | null) {
    this.#prompts = value;
    this.#label();
  }

  /** Whether the conversation is shown: a launcher's panel, or else the element itself. */
  get isOpen(): boolean {
    return this.launcher ? this.hasAttribute("open") : !this.hidden;
  }

  /** Show the conversation, and put the cursor into its field; an event `parley:open` may be cancelled. */
  open(): void {
    this.#show(true);
  }
  /** Hide the conversation; it goes on. */
  close(): void {
    this.#show(false);
  }
  toggle(): void {
    this.#show(!this.isOpen);
  }
  /** Send *text* as the person's message. */
  send(text: string): void {
    if (text.trim()) this.#do(({ actions }) => actions.send(text));
  }
  /** Leave this conversation; the next message opens another. */
  newConversation(): void {
    this.#do(({ actions }) => actions.renew());
  }
  /** Use *token* from now on, without an end to the conversation; one that is refused gives way to the configured source. */
  setToken(token: string): void {
    this.#held.token = token;
    this.#held.arrived?.(token);
    this.#wired?.actions.refresh();
  }
  /** Have the model read, with the next message, what the page says of where the person is; null takes it back. */
  setContext(context: PageContext | null): void {
    this.#context.current = contextText(context);
  }
  override focus(): void {
    this.#wired?.view.focus();
  }
  /** Hand in what became of a call that a `parley:tool-call` reported; whether it counted. */
  submitToolOutput(call: string, output: unknown): Promise<boolean> {
    return this.#pageCalls().then((calls) => calls.hand(call, { call, output }));
  }

  connectedCallback(): void {
    // A property set before the element was defined hides the accessor until it is set again.
    for (const name of Object.keys(this)) {
      const value = this[name as "strings"];
      if (!(name in ParleyChat.prototype)) continue;
      delete (this as Record<string, unknown>)[name];
      this[name as "strings"] = value;
    }
    if (!this.#life) this.#start();
    runCommands();
  }

  /** A move within the page disconnects and connects at once, and must end nothing. */
  disconnectedCallback(): void {
    queueMicrotask(() => {
      if (this.isConnected) return;
      this.#stop();
      void this.#calls?.then((calls) => calls.leave());
    });
  }

  attributeChangedCallback(name: string, before: string | null, after: string | null): void {
    if (before === after) return;
    if (name === "open") this.#launcher?.toggle(after !== null);
    else if ((WORDS as readonly string[]).includes(name)) this.#label();
    else if (!QUIET.includes(name)) this.#restart();
  }

  /** Begin: with the conversation, or with a launcher that begins it when it is opened, or at once where there is one already. */
  #start(): void {
    this.#life = new AbortController();
    const { signal } = this.#life;
    const tokens = (this.#tokens = tokensOf(this, this.#held, this.#getToken, signal));
    const early: Parameters<Observe>[] = [];
    this.#observe = (...each) => void early.push(each);
    void load("host").then(({ attend }) => {
      if (signal.aborted) return;
      this.#observe = attend(this, load, this.#held, this.#getToken, tokens, signal);
      for (const each of early) this.#observe(...each);
    }, (error: unknown) => console.error(error));
    const words = wordsFor(this, this.#strings);
    if (words instanceof Promise) void words.then((each) => signal.aborted || this.#speak(each, signal));
    else this.#speak(words, signal);
  }

  #speak(strings: Strings, signal: AbortSignal): void {
    this.#words = strings;
    if (!this.launcher || this.isOpen || isRemembered(this)) this.#begun();
    for (const act of this.#waiting.splice(0)) this.#do(act);
    if (!this.launcher) return;
    const options = { strings, signal, begun: () => this.#begun()?.view, show: (isOpen: boolean) => this.#show(isOpen) };
    void load("launcher").then(({ launcher }) => {
      if (signal.aborted) return;
      this.#launcher = launcher(this, options);
      this.#launcher.toggle(this.isOpen);
    }, (error: unknown) => console.error(error));
  }

  /** Return what is at work, begun if it was not; null while the element is not on a page. */
  #begun(): Wired | null {
    if (this.#wired || !this.#life || !this.#words || !this.#tokens) return this.#wired;
    const { signal } = this.#life;
    this.#wired = wire(this, {
      tokens: this.#tokens,
      context: this.#context,
      strings: this.#words,
      signal,
      called: (call, isOpen, server) => void this.#pageCalls().then((calls) => calls.offer(call, isOpen, server, signal)),
      changed: (now, backlog) => (this.#launcher?.conversation(now), this.#observe(now, backlog)),
    });
    this.#label();
    if (!this.launcher) this.shadowRoot?.replaceChildren(this.#wired.view.node);
    this.#wired.actions.start();
    queueMicrotask(() => signal.aborted || raise(this, "parley:ready", null));
    return this.#wired;
  }

  /** Do what needs the conversation, once the words are there. */
  #do(act: (wired: Wired) => void): void {
    if (this.#life && !this.#words) return void this.#waiting.push(act);
    const wired = this.#begun();
    if (wired) act(wired);
  }

  #pageCalls(): Promise<PageCalls> {
    return (this.#calls ??= load("host").then(({ pageCalls }) =>
      pageCalls(this, async (run, output) => this.#wired !== null && this.#wired.actions.output(run, output)),
    ));
  }

  #show(isOpen: boolean): void {
    if (isOpen === this.isOpen || !raise(this, isOpen ? "parley:open" : "parley:close", null, isOpen)) return;
    if (isOpen) this.#begun();
    if (this.launcher) this.toggleAttribute("open", isOpen);
    else this.hidden = !isOpen;
    this.#wired?.actions.seen();
    if (isOpen) this.focus();
  }

  #stop(): void {
    this.#life?.abort();
    this.#life = null;
    this.#wired = null;
    this.#words = null;
    this.#launcher = null;
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
    const word = (name: (typeof WORDS)[number]): string => this.getAttribute(name) ?? this.#words?.[name] ?? "";
    this.#wired?.view.label({ heading: word("heading"), greeting: word("greeting"), placeholder: word("placeholder") });
  }
}

export interface ParleyChat extends Properties {
  addEventListener<K extends keyof ParleyEventMap>(name: K, listener: (this: ParleyChat, event: ParleyEventMap[K]) => void, options?: boolean | AddEventListenerOptions): void;
  addEventListener(name: string, listener: EventListenerOrEventListenerObject, options?: boolean | AddEventListenerOptions): void;
  removeEventListener<K extends keyof ParleyEventMap>(name: K, listener: (this: ParleyChat, event: ParleyEventMap[K]) => void, options?: boolean | EventListenerOptions): void;
  removeEventListener(name: string, listener: EventListenerOrEventListenerObject, options?: boolean | EventListenerOptions): void;
}
reflect(ParleyChat);

declare global {
  interface HTMLElementTagNameMap {
    "parley-chat": ParleyChat;
  }
  interface GlobalEventHandlersEventMap extends ParleyEventMap {}
}
