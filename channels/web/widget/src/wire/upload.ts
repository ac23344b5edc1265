/** One file on its way to the server: the one request that says how far it has come. */

import type { FilePart } from "../log/events.js";
import { asProblem, problemIn, type Problem } from "./problem.js";
import type { TokenSource } from "./token.js";

/** What may be sent: bytes of one file, files of one message, and their MIME types. */
export interface FileRules {
  readonly max_bytes: number;
  readonly max_count: number;
  readonly accept: readonly string[];
}

/** Where the server is, and the visitor's token for it. */
export interface Access {
  readonly server: string;
  readonly tokens: TokenSource;
}

/** A file as the server keeps it, which a message may name. */
export type SentFile = Omit<FilePart, "type">;

/** Send *file*; *progress* is called with the part that has gone out, 0 to 1. Throws a `Problem`; *signal* cancels. */
export async function upload(access: Access, file: File, progress: (part: number) => void, signal: AbortSignal): Promise<SentFile> {
  const { server, tokens } = access;
  const token = await tokens.get();
  try {
    return await send(server, token, file, progress, signal);
  } catch (error) {
    if ((error as Problem).status !== 401 || signal.aborted) throw error;
    tokens.drop(token);
    return send(server, await tokens.get(), file, progress, signal);
  }
}

async function send(server: string, token: string | null, file: File, progress: (part: number) => void, signal: AbortSignal): Promise<SentFile> {
  signal.throwIfAborted();
  const request = new XMLHttpRequest(); // `fetch` does not say how much of a body has gone out
  const body = new FormData();
  body.append("file", file, file.name);
  return new Promise((resolve, reject) => {
    const cancel = (): void => request.abort();
    signal.addEventListener("abort", cancel, { once: true });
    request.upload.onprogress = ({ loaded, total }) => progress(total ? loaded / total : 0);
    request.onloadend = () => {
      signal.removeEventListener("abort", cancel);
      if (signal.aborted) reject(signal.reason);
      else if (request.status === 201) resolve(sentFile(request.response));
      else if (!request.status) reject(asProblem(new Error("no answer")));
      else reject(problemIn(request.status, bodyOf(request.response), request.getResponseHeader("Retry-After")));
    };
    request.open("POST", `${server}/v1/files`);
    if (token !== null) request.setRequestHeader("Authorization", `Bearer ${token}`);
    request.send(body);
  });
}

function sentFile(text: string): SentFile {
  const { id, name, mime, size } = bodyOf(text) as unknown as { id: string; name: string; mime: string; size: number };
  return { file: id, name, mime, size };
}

function bodyOf(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return {};
  }
}
