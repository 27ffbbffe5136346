import { base64 } from '../messages/media.js';
import type { Part } from '../messages/part.js';
import { failed } from '../tools/result.js';
import { type Answer, type Json, type Limits, toolError } from './frames.js';
import { plain } from './tool.js';

/** Bytes of Blobs that come in the frame itself; what is beyond is uploaded. */
const MOST_INLINE = 256 * 1024;
/** Bytes of a message that are left for everything but the output. */
const ROOM = 64 * 1024;

/** Keeps a Blob at the gateway, and gives the id of the artifact (ws.md 5.10). */
export type Upload = (blob: Blob, name: string) => Promise<string>;

/** The answer to a call whose handler gave this value (ws.md 5.2, 5.10); rejects when it can't be sent. */
export async function answerOf(
  id: string,
  value: unknown,
  agreed: ReadonlySet<string>,
  limits: Limits,
  upload: Upload,
): Promise<Answer> {
  let [output, things] = takenApart(value);
  const takesParts = agreed.has('parts');
  if (things.length && !takesParts) {
    const note = `(${things.length} attachment(s) could not be sent: this gateway takes text alone.)`;
    output = [textOf(output), note].filter(Boolean).join('\n');
    things = [];
  }
  const parts = await partsOf(things, upload);
  const inline = parts.reduce((size, part) => size + (part.data?.length ?? 0), 0);
  if (new Blob([JSON.stringify(output)]).size > limits.message_bytes - inline - ROOM) {
    const isText = typeof output === 'string';
    const file = new Blob([textOf(output)], { type: isText ? 'text/plain' : 'application/json' });
    if (!takesParts) throw new Error(`The tool ran, but its result of ${file.size} bytes is too large to be sent.`);
    const name = isText ? 'result.txt' : 'result.json';
    parts.push({ kind: 'file', media_type: file.type, artifact: await upload(file, name), name });
    output = `The result has ${file.size} bytes and came as the file '${name}'.`;
  } else if (depthOf(output) >= limits.depth) {
    throw new Error(`The tool ran, but its result is nested deeper than ${limits.depth}: give it a flatter form.`);
  } else if (!agreed.size) {
    output = textOf(output); // a gateway of the seed's reads text alone
  }
  return { type: 'tool_result', id, output, parts: parts.length ? parts : undefined };
}

/** The answer to a call whose handler threw this: its text, and its code when it has one (ws.md 5.5). */
export function faultOf(id: string, thrown: unknown): Answer {
  const { error, code } = failed(id, thrown).output as { error: string; code?: string };
  return toolError(id, error, code);
}

/** The plain JSON, and what comes with it. A Blob inside of something leaves a note in its place. */
function takenApart(value: unknown): [Json, (Blob | Part)[]] {
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

async function partsOf(things: (Blob | Part)[], upload: Upload): Promise<Part[]> {
  const parts: Part[] = [];
  let room = MOST_INLINE;
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
