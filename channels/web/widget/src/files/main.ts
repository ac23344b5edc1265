/** The chunk of attachments, loaded where an agent takes files: what is chosen, pasted or dropped goes out with the next message. */

import { adopt } from "../styles/adopt.js";
import { createAttachments, type Attachments, type AttachmentOptions } from "./attachments.js";
import css from "./files.css";

export type { Attachments } from "./attachments.js";

/** Return what attaches files, its style sheet in the root of *host*. */
export function attachments(host: HTMLElement, options: AttachmentOptions): Attachments {
  adopt(host, css);
  return createAttachments(options);
}
