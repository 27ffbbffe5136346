import type { MessageOptions } from 'handspan/device';
import { slowRest } from '../gateway/rest.ts';
import type { AttachmentView } from './view.ts';

type Part = NonNullable<MessageOptions['parts']>[number];

/** Brings a file to the gateway; returns it as a part of a message. */
export async function upload(file: File): Promise<Part> {
  const { id } = await slowRest.post('/api/artifacts', { query: { name: file.name }, body: file });
  return { kind: kindOf(file), media_type: file.type || 'application/octet-stream', artifact: id, name: file.name };
}

/** A file that a message has already, to be sent with another one. */
export async function readFile({ name, url }: AttachmentView): Promise<File> {
  const answer = await fetch(url);
  if (!answer.ok)
    throw new Error(`The file ${name} can't be read any more (${answer.status}): say it in a new message.`);
  const blob = await answer.blob();
  return new File([blob], name, { type: blob.type });
}

/** A file that is shown before the gateway has it. Its address holds the file until it is revoked. */
export function preview(file: File): AttachmentView {
  return { kind: kindOf(file), name: file.name, url: URL.createObjectURL(file) };
}

function kindOf({ type }: File): 'image' | 'audio' | 'file' {
  return type.startsWith('image/') ? 'image' : type.startsWith('audio/') ? 'audio' : 'file';
}
