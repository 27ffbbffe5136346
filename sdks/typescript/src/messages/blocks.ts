import type { Media } from './media.js';
import type { Part } from './part.js';

/** Words. */
export class TextBlock {
  readonly type = 'text';
  constructor(public text: string) {}
}

/** A picture. */
export class ImageBlock {
  readonly type = 'image';
  constructor(
    public media: Media,
    public alt_text?: string,
  ) {}
}

/** A sound. */
export class AudioBlock {
  readonly type = 'audio';
  constructor(
    public media: Media,
    public transcript?: string,
  ) {}
}

/** A film. */
export class VideoBlock {
  readonly type = 'video';
  constructor(public media: Media) {}
}

/** A document: a file, or its text. */
export class DocumentBlock {
  readonly type = 'document';
  constructor(
    public media?: Media,
    public text?: string,
  ) {}
}

/** Bytes of any kind. */
export class DataBlock {
  readonly type = 'data';
  constructor(
    public mime_type: string,
    public data_base64?: string,
    public media?: Media,
  ) {}
}

/** A call of a tool that is not this client's: to look at, not to run. */
export class ToolCallBlock {
  readonly type = 'tool_call';
  constructor(
    public id: string,
    public name: string,
    public args: Record<string, unknown> = {},
    public tool_type: string | null = null,
  ) {}
}

/** A call that waits for this client's answer. graph.md 4.5 */
export class RemoteToolCallBlock {
  readonly type = 'remote_tool_call';
  readonly tool_type = 'remote';
  constructor(
    public id: string,
    public name: string,
    public args: Record<string, unknown> = {},
  ) {}
}

/** The answer to one call. graph.md 5.1 */
export class ToolResultBlock {
  readonly type = 'tool_result';
  declare parts?: Part[];
  constructor(
    public call_id: string,
    public output: unknown = null,
    public is_error = false,
    public status: 'completed' | 'failed' | null = is_error ? 'failed' : 'completed',
  ) {}
}

/** What the model let us see of its reasoning. */
export class ReasoningBlock {
  readonly type = 'reasoning';
  constructor(public summary: string) {}
}

/** A remark about other blocks. */
export class AnnotationBlock {
  readonly type = 'annotation';
  constructor(
    public kind = 'note',
    public refs: unknown[] = [],
    public spans: unknown = null,
  ) {}
}

/** Something that went wrong. */
export class ErrorBlock {
  readonly type = 'error';
  constructor(
    public message: string,
    public code?: string,
  ) {}
}

const CLASSES = {
  text: TextBlock,
  image: ImageBlock,
  audio: AudioBlock,
  video: VideoBlock,
  document: DocumentBlock,
  data: DataBlock,
  tool_call: ToolCallBlock,
  remote_tool_call: RemoteToolCallBlock,
  tool_result: ToolResultBlock,
  reasoning: ReasoningBlock,
  annotation: AnnotationBlock,
  error: ErrorBlock,
};

/** Any block of a message. */
export type ContentBlock = InstanceType<(typeof CLASSES)[keyof typeof CLASSES]>;

/** A block as it came over the wire, as one of the classes above; of an unknown type it stays what it is. */
export function readBlock(json: ContentBlock): ContentBlock {
  const known = CLASSES[json.type];
  return known === undefined ? json : Object.assign(Object.create(known.prototype), json);
}
