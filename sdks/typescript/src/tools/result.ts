import { ToolResultBlock } from '../messages/blocks.js';
import { type Part, part, type Upload } from '../messages/part.js';

/** The block that answers a call with what its handler returned. */
export async function completedResult(callId: string, returned: unknown, upload?: Upload): Promise<ToolResultBlock> {
  if (returned instanceof Blob) return withParts(callId, null, [returned], upload);
  const { parts, output = null } = (returned ?? {}) as { parts?: unknown; output?: unknown };
  if (Array.isArray(parts) && parts.every(isPart)) return withParts(callId, output, parts, upload);
  return new ToolResultBlock(callId, plain(returned));
}

/** The block that answers a call with what its handler threw. */
export function failedResult(callId: string, thrown: unknown): ToolResultBlock {
  const { name, message, code } = (typeof thrown === 'object' && thrown !== null ? thrown : {}) as Partial<ToolFault>;
  const error = typeof message === 'string' && message !== '' ? message : String(name ?? thrown);
  return new ToolResultBlock(callId, { error, ...faultCode(name, code) }, true);
}

interface ToolFault {
  name: string;
  message: string;
  code: unknown;
}

/** One of the codes of ws.md 5.5. The code of a DOMException is a number, so its name is used. */
function faultCode(name: unknown, code: unknown): { code?: string } {
  if (typeof code === 'string' && /^[a-z_]+$/.test(code)) return { code };
  return name === 'NotAllowedError' ? { code: 'permission_denied' } : {};
}

async function withParts(
  callId: string,
  output: unknown,
  parts: ReadonlyArray<Blob | Part>,
  upload: Upload | undefined,
): Promise<ToolResultBlock> {
  const block = new ToolResultBlock(callId, plain(output));
  block.parts = await Promise.all(parts.map((one) => part(one, upload)));
  return block;
}

function isPart(value: unknown): value is Blob | Part {
  return value instanceof Blob || (typeof value === 'object' && value !== null && 'media_type' in value);
}

/** The value as JSON has it; throws when it has none. What JSON does not know, such as undefined, becomes null. */
function plain(value: unknown): unknown {
  return JSON.stringify(value) === undefined ? null : value;
}
