/**
 * Controls, zero-width and bidirectional characters, tags: what `core/values.py` counts as invisible. Joiners and
 * variation selectors belong to scripts and emoji.
 */
const INVISIBLE =
  /(?![\t\n\r]|\u034f|\u200c|\u200d|[\ufe00-\ufe0f])[\p{Cc}\p{Default_Ignorable_Code_Point}\ufff9-\ufffb\u2028\u2029]/gu;

/** The text with invisible characters as escapes of JSON: a person sees them, and in JSON the value stays the same. */
export function showInvisible(text: string): string {
  return text.replace(INVISIBLE, (one) =>
    Array.from({ length: one.length }, (_, at) => `\\u${one.charCodeAt(at).toString(16).padStart(4, '0')}`).join(''),
  );
}
