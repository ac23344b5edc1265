/** A stand-in for the server: answers are given by a list, requests are kept. */

export interface Seen {
  readonly method: string;
  readonly path: string;
  readonly headers: Headers;
  readonly body: unknown;
}

export type Answer = (seen: Seen, signal: AbortSignal | null) => Response | Promise<Response>;

export interface StandIn {
  readonly fetch: typeof fetch;
  readonly seen: Seen[];
}

/** Return a server whose requests are answered by *answer*; throwing there is a network error. */
export function standIn(answer: Answer): StandIn {
  const seen: Seen[] = [];
  const ask = async (input: RequestInfo | URL, init: RequestInit = {}): Promise<Response> => {
    const request: Seen = {
      method: init.method ?? "GET",
      path: String(input),
      headers: new Headers(init.headers),
      body: typeof init.body === "string" ? JSON.parse(init.body) : null,
    };
    seen.push(request);
    return answer(request, init.signal ?? null);
  };
  return { fetch: ask as typeof fetch, seen };
}

export function json(status: number, body: object, headers: Record<string, string> = {}): Response {
  return new Response(JSON.stringify(body), { status, headers });
}

export function problem(status: number, code: string, headers: Record<string, string> = {}): Response {
  return json(status, { type: "about:blank", title: "Title", status, code, detail: `Detail of ${code}.` }, headers);
}

/** Return a stream of *text* that stays open until *signal* aborts, or ends at once. */
export function stream(text: string, signal: AbortSignal | null): Response {
  const body = new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode(text));
      if (!signal) return controller.close();
      signal.addEventListener("abort", () => controller.error(signal.reason));
    },
  });
  return new Response(body, { headers: { "Content-Type": "text/event-stream" } });
}

/** Return the frames of *type* and *data* as the server writes them. */
export function sse(seq: number | null, type: string, run: string | null, data: object): string {
  const envelope = { run, parent_run: null, time: "2026-01-05T09:00:00.000Z", ...(seq !== null && { session: "ses_1" }) };
  return `${seq === null ? "" : `id: ${seq}\n`}event: ${type}\ndata: ${JSON.stringify({ ...data, ...envelope })}\n\n`;
}
