/** What the agent shows of itself before anything is said, as `GET /v1/web/agent` gives it. */

export interface StartPrompt {
  readonly label: string;
  /** The message that a click sends. */
  readonly prompt: string;
  readonly icon?: string | null;
}

/** Null where nothing is set. */
export interface AgentFace {
  readonly agent: { readonly id: string; readonly name: string };
  readonly title: string | null;
  readonly greeting: string | null;
  /** An address of https, a `data:image/…`, or one or two characters. */
  readonly avatar: string | null;
  readonly prompts: readonly StartPrompt[];
  readonly files: { readonly max_bytes: number; readonly max_count: number; readonly accept: readonly string[] } | null;
  readonly overlap: "queue" | "steer" | "interrupt";
  readonly anonymous: boolean;
  /** The widget that the server gives out, see `widget.json`. */
  readonly build: string;
}
