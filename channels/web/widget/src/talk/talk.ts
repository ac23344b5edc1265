/** The conversation that is shown, as what is done with whole ones sees it. */

import type { ViewState } from "../log/state.js";
import type { Client } from "../wire/client.js";
import type { SentFile } from "../wire/upload.js";
import type { Memory } from "./storage.js";

/** What messages are sent to: a session, or one that the first message opens. */
export interface Home {
  id: string | null;
  opening?: Promise<string> | null;
  /** A message of it is about to be said again. */
  branching?: boolean;
}

/** The conversation that is shown, for what is done with whole ones. */
export interface Talk {
  readonly client: Client;
  readonly memory: Memory;
  readonly signal: AbortSignal;
  home(): Home;
  view(): ViewState;
  /** Show another session, or with null a conversation that is not opened yet. */
  show(session: string | null): void;
  /** Go on in *session*, a copy of the one that is shown, which ends with *view*. */
  proceed(session: string, view: ViewState): void;
  say(text: string, files: readonly SentFile[], home: Home): void;
}
