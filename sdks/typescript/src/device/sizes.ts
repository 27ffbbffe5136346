import type { Answer, Json, Limits } from './frames.js';

/** Bytes of a message that are left for everything but the one thing that may be large. */
const AROUND = 300;
const LONGEST_TEXT = 10_000;
const LONGEST_CODE = 64;
/** Bytes that a character may take in JSON. */
const WORST = 6;

const encoder = new TextEncoder();

/** Bytes of the value as JSON. */
export function sizeOf(value: unknown): number {
  return encoder.encode(JSON.stringify(value)).length;
}

/** Whether the gateway takes this frame; a larger one ends the link (ws.md 5.12). */
export function fits(frame: object, limits: Limits): boolean {
  return sizeOf(frame) <= limits.message_bytes;
}

/** Bytes of one thing that surely fit into a message. */
export function roomIn(limits: Limits): number {
  return limits.message_bytes - AROUND;
}

/** The text, so that it surely fits into a message; where something is missing, it says so. */
export function cut(text: string, limits: Limits): string {
  const most = Math.min(LONGEST_TEXT, Math.floor(Math.max(0, roomIn(limits)) / WORST));
  if (text.length <= most) return text;
  const mark = `… (cut: it had ${text.length} characters)`;
  return text.slice(0, Math.max(0, most - mark.length)) + mark;
}

/** The answer with a text that fits, if it is an error. */
export function short(answer: Answer, limits: Limits): Answer {
  if (answer.type === 'tool_result') return answer;
  const { type, id, error, code = '' } = answer;
  return { type, id, error: cut(String(error), limits), code: code.length <= LONGEST_CODE && code ? code : undefined };
}

/** What a handler reports; a note in place of what no message can hold. */
export function shown(value: Json, limits: Limits): Json {
  const size = sizeOf(value);
  return size <= roomIn(limits) ? value : `(progress of ${size} bytes: too large to be shown)`;
}
