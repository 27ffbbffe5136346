/** Where the bytes of a medium are. graph.md 2.3 */
export interface Media {
  kind: 'url' | 'file_id' | 'data';
  url?: string;
  file_id?: string;
  data_base64?: string;
  mime_type?: string;
  filename?: string;
}

/** The bytes of a Blob or File as base64, without anything of Node. */
export async function base64(blob: Blob): Promise<string> {
  const bytes = new Uint8Array(await blob.arrayBuffer());
  let text = '';
  // In pieces: a call takes no more arguments than the stack has room for.
  for (let start = 0; start < bytes.length; start += 0x8000) {
    text += String.fromCharCode(...bytes.subarray(start, start + 0x8000));
  }
  return btoa(text);
}

/** A Blob or File as a medium that can stand in a message. */
export async function media(blob: Blob): Promise<Media> {
  const filename = (blob as Partial<File>).name;
  return {
    kind: 'data',
    data_base64: await base64(blob),
    mime_type: blob.type || 'application/octet-stream',
    ...(filename && { filename }),
  };
}
