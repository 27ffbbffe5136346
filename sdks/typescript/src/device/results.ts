import { codedError } from '../errors/coded-error.js';
import { base64 } from '../messages/media.js';
import type { Part } from '../messages/part.js';
import { failedResult } from '../tools/result.js';
import {
  type Answer,
  type Json,
  type Limits,
  type ToolCallRequest,
  type ToolResultFrame,
  toolError,
} from './frames.js';
import type { LoginRequired } from './login.js';
import { fits, sizeOf } from './sizes.js';
import { plain } from './tool.js';

/** Bytes of Blobs that one frame carries at most. Blobs beyond that are uploaded. */
const MAX_INLINE = 256 * 1024;
/** Blobs take at most this part of a message: a quarter, which base64 makes a third. */
const INLINE_SHARE = 4;
/** Characters of a hint for the person. */
const MAX_HINT = 1000;

/** Uploads a Blob to the gateway; resolves to the id of the artifact (ws.md 5.10). */
export type Upload = (blob: Blob, name: string) => Promise<string>;

/** The answer with the value that a handler returned (ws.md 5.2, 5.10); rejects when it can't be sent. */
export async function encodeResult(
  id: string,
  value: unknown,
  capabilities: ReadonlySet<string>,
  limits: Limits,
  upload: Upload,
): Promise<Answer> {
  let [output, things] = splitAttachments(value);
  if (things.length && !capabilities.has('parts')) {
    const note = `(${things.length} attachment(s) could not be sent: this gateway takes text alone.)`;
    output = [textOf(output), note].filter(Boolean).join('\n');
    things = [];
  }
  if (!capabilities.size) output = textOf(output); // a gateway without capabilities takes text only
  const parts = await encodeParts(things, limits, upload);
  const attached = parts.length ? parts : undefined;
  const whole: ToolResultFrame = { type: 'tool_result', id, output, success: true, parts: attached };
  const answer = await shrinkResult(whole, capabilities, limits, upload);
  if (depthOf(answer.output) >= limits.depth) {
    throw new Error(`The tool ran, but its result is nested deeper than ${limits.depth}: give it a flatter form.`);
  }
  return answer;
}

/** The answer, small enough for one message: large contents are uploaded (ws.md 5.12); rejects when none fits. */
export async function shrinkResult(
  answer: ToolResultFrame,
  capabilities: ReadonlySet<string>,
  limits: Limits,
  upload: Upload,
): Promise<ToolResultFrame> {
  if (fits(answer, limits)) return answer;
  const isText = typeof answer.output === 'string';
  const file = new Blob([textOf(answer.output)], { type: isText ? 'text/plain' : 'application/json' });
  let { output, parts = [] } = answer;
  if (capabilities.has('parts')) {
    if (sizeOf(output) > limits.message_bytes / 2) {
      const name = isText ? 'result.txt' : 'result.json';
      const media_type = isText ? 'text/plain' : 'application/json';
      parts = [...parts, { kind: 'file', media_type, artifact: await upload(file, name), name }];
      output = `The result has ${file.size} bytes and came as the file '${name}'.`;
    }
    if (!fits({ ...answer, output, parts }, limits)) {
      parts = await Promise.all(parts.map((part) => uploadPart(part, upload)));
    }
  }
  const small = { ...answer, output, parts: parts.length ? parts : undefined };
  if (fits(small, limits)) return small;
  const text =
    `The tool ran, but its result of ${file.size} bytes${parts.length ? ` and ${parts.length} attachments` : ''} is too ` +
    `large to be sent: a message to the gateway has at most ${limits.message_bytes} bytes. Ask it for a smaller part, ` +
    'or let it return less.';
  throw codedError(text, 'execution_failed');
}

async function uploadPart({ data, ...part }: Part, upload: Upload): Promise<Part> {
  if (!data) return part;
  const bytes = Uint8Array.from(atob(data), (one) => one.charCodeAt(0));
  return { ...part, artifact: await upload(new Blob([bytes], { type: part.media_type }), part.name ?? '') };
}

/** The answer with the error that a handler threw: its text, and its code when it has one (ws.md 5.5). */
export function encodeError(id: string, thrown: unknown): Answer {
  const { error, code } = failedResult(id, thrown).output as { error: string; code?: string };
  return toolError(id, error, code);
}

/** The answer that keeps the call open (ws.md 5.13). A gateway that knows no logins gets the hint in the text. */
export function encodeLogin(
  request: ToolCallRequest,
  thrown: LoginRequired,
  capabilities: ReadonlySet<string>,
): Answer {
  const { message, hint, intent, code } = thrown;
  if (!capabilities.has('login')) return toolError(request.id, hint ? `${message} — ${hint}` : message, code);
  const [resolution_hint, authorize_intent] = [hint, intent].map((text) => text.slice(0, MAX_HINT) || undefined);
  const about = { resolution_hint, authorize_intent, retry: request.retry };
  return { ...toolError(request.id, message, code), ...about };
}

/** The plain JSON, and its attachments. A Blob inside a value leaves a note in its place. */
function splitAttachments(value: unknown): [Json, (Blob | Part)[]] {
  const { parts, output = '' } = (value ?? {}) as { parts?: unknown; output?: unknown };
  const isWithParts = Array.isArray(parts) && parts.every((one) => blobOf(one) || one?.media_type);
  const things: (Blob | Part)[] = isWithParts ? parts.map((one) => blobOf(one) ?? one) : [];
  const whole = blobOf(value);
  if (whole) return ['', [whole]];
  const note = (_: string, one: unknown) => {
    const blob = blobOf(one);
    return blob ? `(attachment ${things.push(blob)})` : one;
  };
  try {
    return [plain(isWithParts ? output : value, note), things];
  } catch (error) {
    throw new Error(`The tool ran, but its result is no JSON: ${(error as Error).message}`);
  }
}

function blobOf(value: unknown): Blob | undefined {
  if (value instanceof ArrayBuffer || ArrayBuffer.isView(value)) return new Blob([value as BlobPart]);
  return value instanceof Blob ? value : undefined;
}

async function encodeParts(things: (Blob | Part)[], limits: Limits, upload: Upload): Promise<Part[]> {
  const parts: Part[] = [];
  let room = Math.min(MAX_INLINE, limits.message_bytes / INLINE_SHARE);
  for (const thing of things) {
    if (!(thing instanceof Blob)) {
      parts.push(thing);
      continue;
    }
    const { name = '' } = thing as Partial<File>;
    const media_type = thing.type || 'application/octet-stream';
    const [family] = media_type.split('/');
    const kind = family === 'image' || family === 'audio' ? family : 'file';
    const isSmall = thing.size <= room;
    if (isSmall) room -= thing.size;
    const bytes = isSmall ? { data: await base64(thing) } : { artifact: await upload(thing, name) };
    parts.push({ kind, media_type, ...bytes, ...(name && { name }) });
  }
  return parts;
}

function textOf(value: Json): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function depthOf(value: Json): number {
  if (typeof value !== 'object' || !value) return 0;
  return 1 + Object.values(value).reduce<number>((most, one) => Math.max(most, depthOf(one)), 0);
}
