/** Which pages are on the developer's own machine. */

const LOOPBACK = /^(localhost|.*\.localhost|127(\.\d+){3}|\[::1\])$/;

/** Return whether *host* is this machine. */
export function isLoopback(host: string): boolean {
  return LOOPBACK.test(host);
}
