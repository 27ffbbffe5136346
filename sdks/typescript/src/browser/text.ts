/** As much of a text as a tool hands out. */
export const MOST_CHARACTERS = 50_000;

/** The text, or its beginning with the length of the whole. */
export function limitText(
  text: string,
  most = MOST_CHARACTERS,
): { text: string; truncated?: true; characters?: number } {
  if (text.length <= most) {
    return { text };
  }
  return { text: head(text, most), truncated: true, characters: text.length };
}

/** The beginning of a text, with no half of a surrogate pair at its end. */
export function head(text: string, most: number): string {
  const last = text.charCodeAt(most - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? most - 1 : most);
}
