import { base64 } from './media.js';

/** An image, a sound or a file beside a tool's output. ws.md 5.10 */
export interface Part {
  kind: 'image' | 'audio' | 'file';
  media_type: string;
  /** Base64; or `artifact`, the id that an upload gave. */
  data?: string;
  artifact?: string;
  name?: string;
}

/** Uploads a Blob to the gateway; resolves to its id. */
export type Upload = (blob: Blob) => Promise<string>;

/** Bytes from which on a Blob is uploaded, and does not stand in the result itself. */
const LARGE = 256 * 1024;

/** A Blob or File as a part; a part stays what it is. */
export async function part(value: Blob | Part, upload?: Upload): Promise<Part> {
  if (!(value instanceof Blob)) return value;
  const name = (value as Partial<File>).name;
  const [family] = value.type.split('/');
  return {
    kind: family === 'image' || family === 'audio' ? family : 'file',
    media_type: value.type || 'application/octet-stream',
    ...(upload && value.size > LARGE ? { artifact: await upload(value) } : { data: await base64(value) }),
    ...(name && { name }),
  };
}
