/** An error of a tool, with one of the codes of ws.md 5.5. */
export function codedError(text: string, code: string): Error {
  return Object.assign(new Error(text), { code });
}
