import { type Answer, type Json, type Limits, toolError } from './frames.js';

/** Bytes of a message for all fields besides the one that may be large. */
const FRAME_OVERHEAD = 300;
const MAX_TEXT = 10_000;
const MAX_CODE = 64;
/** Bytes that one character takes in JSON at most. */
const MAX_CHARACTER_BYTES = 6;

const encoder = new TextEncoder();

/** Bytes of the value as JSON. */
export function sizeOf(value: unknown): number {
  return encoder.encode(JSON.stringify(value)).length;
}

/** Whether the frame fits into one message; the gateway closes the link on a larger one (ws.md 5.12). */
export function fits(frame: object, limits: Limits): boolean {
  return sizeOf(frame) <= limits.message_bytes;
}

/** Bytes of one field that always fit into a message. */
export function spaceIn(limits: Limits): number {
  return limits.message_bytes - FRAME_OVERHEAD;
}

/** The text, short enough for a message; a note says where it was cut. */
export function shorten(text: string, limits: Limits): string {
  const most = Math.min(MAX_TEXT, Math.floor(Math.max(0, spaceIn(limits)) / MAX_CHARACTER_BYTES));
  if (text.length <= most) return text;
  const mark = `… (cut: it had ${text.length} characters)`;
  return text.slice(0, Math.max(0, most - mark.length)) + mark;
}

/** The answer with a text that fits, if it is an error. */
export function shortenError(answer: Answer, limits: Limits): Answer {
  if (answer.type === 'tool_result') return answer;
  const { id, error, code = '', ...login } = answer;
  return { ...login, ...toolError(id, shorten(String(error), limits), code.length <= MAX_CODE ? code : '') };
}

/** The reported value; a note in its place when it does not fit into a message. */
export function progressValue(value: Json, limits: Limits): Json {
  const size = sizeOf(value);
  return size <= spaceIn(limits) ? value : `(progress of ${size} bytes: too large to be shown)`;
}
