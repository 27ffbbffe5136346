import type { Connection } from '../http/connection.js';
import type { Envelope } from '../http/options.js';

/** A file that the gateway keeps; `file_id` can stand in messages. graph.md 9.4 */
export interface FileData {
  file_id: string;
  filename?: string | null;
  mime_type?: string;
  size_bytes?: number;
  [more: string]: unknown;
}

type From = Connection;
const at = (id: string, rest = ''): string => `/v1/files/${encodeURIComponent(id)}${rest}`;

export const uploadFile = (from: From, file: Blob, filename?: string): Promise<Envelope<FileData>> => {
  const form = new FormData();
  form.append('file', file, filename ?? (file as Partial<File>).name ?? 'file');
  return from.json('/v1/files/upload', { body: form });
};

export const getFile = (from: From, id: string): Promise<Blob> => from.whole(at(id), {}, (response) => response.blob());

export const getFileInfo = (from: From, id: string): Promise<Envelope<FileData>> => from.json(at(id, '/info'));

export const getFileAccessUrl = (from: From, id: string): Promise<Envelope<{ url: string }>> =>
  from.json(at(id, '/url'));

export const getMultimodalConfig = (from: From): Promise<Envelope<Record<string, unknown>>> =>
  from.json('/v1/config/multimodal');
