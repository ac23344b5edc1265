/** The operator's page: a login, or the list of conversations beside the one that the address names. */

import { createClient, requester, sender, type ClientOptions } from "../wire/client.js";
import { h, setAttribute, setText } from "../dom.js";
import { unmistakable } from "../legible.js";
import { pause } from "../wire/pause.js";
import { asProblem } from "../wire/problem.js";
import { browserMemory } from "../talk/storage.js";
import { explain } from "../words/strings.js";
import { ANSWERS } from "../styles/answers.js";
import { styleSheet } from "../styles/styles.js";
import { createAccess, type Access, type Operator } from "./access.js";
import { createApi, type Session } from "./api.js";
import { createLogin } from "./login.js";
import { createPane, type Pane } from "./pane.js";
import { createSide, sessionOf } from "./side.js";
import css from "./operator.css";
import { TALK, WORDS } from "./words.js";

const NAME = "parley:operator:name";

/** Show the page in *body*: what the address names stays named through a login. */
export function mount(body: HTMLElement): void {
  const root = body.attachShadow({ mode: "open" });
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(css);
  root.adoptedStyleSheets = [styleSheet(ANSWERS), sheet];
  let life = new AbortController();

  const restart = (said = ""): void => {
    life.abort();
    life = new AbortController();
    const { signal } = life;
    let view: Console | null = null;
    let operator: Operator | null = null;
    const known = (next: Operator): void => {
      const changed = operator === null || operator.scopes.join() !== next.scopes.join();
      operator = next;
      if (view && changed) view.permit();
    };
    const ended = (): void => {
      if (signal.aborted) return;
      if (view) restart(WORDS.login.ended);
      else door(access, said, () => restart());
    };
    const access = createAccess({ fetch: fetch.bind(globalThis), signal, now: Date.now, known, ended });
    const can = (scope: string): boolean => operator?.scopes.includes(scope) ?? false;
    access.tokens.get().then(
      () => {
        view = createConsole({ access, operator: operator as unknown as Operator, can, signal, left: () => restart() });
        root.replaceChildren(view.node);
      },
      (error: unknown) => {
        const problem = asProblem(error);
        if (problem.status !== 401 && !signal.aborted) door(access, explain(problem, TALK), () => restart());
      },
    );
  };
  const door = (access: Access, said: string, entered: () => void): void => {
    const login = createLogin(async (key) => (await access.logIn(key), entered()), said, isSecureContext);
    document.title = WORDS.title;
    root.replaceChildren(login.node);
    login.focus();
  };
  restart();
}

interface Console {
  readonly node: HTMLElement;
  permit(): void;
}

interface ConsoleOptions {
  readonly access: Access;
  readonly operator: Operator;
  readonly can: (scope: string) => boolean;
  readonly left: () => void;
  readonly signal: AbortSignal;
}

function createConsole({ access, operator, can, left, signal }: ConsoleOptions): Console {
  const options: ClientOptions = { server: "", tokens: access.tokens, fetch: fetch.bind(globalThis), pause, random: Math.random };
  const request = requester(options);
  const [client, api] = [createClient(options), createApi(request, sender(options, request))];
  const logOut = h("button", { type: "button", class: "quiet" }, WORDS.logOut);
  const who = h("span", { class: "whoami" }, unmistakable(operator.actor.name || operator.actor.id));
  const remembered = browserMemory(NAME);
  const head = h("header", {}, h("h1", {}, WORDS.title), who, logOut);
  const place = h("div", { class: "place" });
  const choose = h("p", { class: "nothing" });
  let pane: { readonly id: string; readonly view: Pane; readonly life: AbortController } | null = null;
  let labelled = "";
  let known: { sessions: readonly Session[]; agents: ReadonlyMap<string, string> } = { sessions: [], agents: new Map() };

  const label = (session: Session): void => {
    const agent = known.agents.get(session.agent) ?? "";
    if (!pane || pane.id !== session.id || labelled === `${session.id} ${session.title} ${session.replaced_by} ${agent}`) return;
    labelled = `${session.id} ${session.title} ${session.replaced_by} ${agent}`;
    pane.view.label(session, agent);
  };
  const listed = (sessions: readonly Session[], agents: ReadonlyMap<string, string>): void => {
    known = { sessions, agents };
    const mine = sessions.find(({ id }) => id === pane?.id);
    if (mine) label(mine);
  };
  const waiting = (said: string): void => void (document.title = said ? `(${said}) ${WORDS.title}` : WORDS.title);
  const side = createSide({ api, head, pause, isHidden: () => document.hidden, listed, waiting, now: Date.now, signal });
  const node = h("main", { class: "console" }, side.node, place);

  const open = (id: string): void => {
    const life = new AbortController();
    const mine = AbortSignal.any([life.signal, signal]);
    const name = remembered.load() ?? operator.actor.name ?? "";
    const renamed = (next: string): void => remembered.save(next);
    const view = createPane({ session: id, client, api, can, name, renamed, newKey, stirred: side.refresh, signal: mine });
    pane = { id, view, life };
    place.replaceChildren(view.node);
    const listedOne = known.sessions.find((each) => each.id === id);
    if (listedOne) label(listedOne);
    else api.session(id, mine).then(label, () => undefined); // the stream says what is wrong
  };
  const route = (): void => {
    const id = can("read") ? sessionOf(location.hash) : null;
    if (id !== pane?.id) {
      pane?.life.abort();
      pane = null;
      labelled = "";
      if (id !== null) open(id);
      else place.replaceChildren(choose);
    }
    setText(choose, can("read") ? WORDS.choose : WORDS.noScope);
    setAttribute(node, "data-open", id !== null);
    side.choose(id);
  };
  logOut.addEventListener("click", () => void access.logOut().then(left, left), { signal });
  addEventListener("hashchange", () => (route(), pane?.view.focus()), { signal });
  addEventListener("keydown", (event) => slash(event, node), { signal });
  place.replaceChildren(choose);
  route();
  return {
    node,
    permit() {
      route();
      pane?.view.permit();
    },
  };
}

/** Let "/" lead to the search from wherever nothing is being written. */
function slash(event: KeyboardEvent, node: HTMLElement): void {
  const at = event.composedPath()[0];
  if (event.key !== "/" || event.ctrlKey || event.metaKey || at instanceof HTMLInputElement || at instanceof HTMLTextAreaElement) return;
  event.preventDefault();
  node.querySelector<HTMLElement>("input[type=search]")?.focus();
}

/** Return an idempotency key; `randomUUID` is missing on pages that are not served securely. */
function newKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
