import { type ContentBlock, ImageBlock, readBlock, TextBlock } from './blocks.js';
import { type Media, media } from './media.js';

/** The speaker of a message. */
export type Role = 'user' | 'assistant' | 'system' | 'tool';

/** A call as a message of the model names it. graph.md 2.5 */
export interface NamedCall {
  id: string;
  type: 'function';
  function: { name: string; arguments: string };
}

/** One entry of a conversation, with the fields that it has on the wire. graph.md 2.1 */
export class Message {
  message_id: string | null = null;
  delta = false;
  tools_calls: NamedCall[] | null = null;
  /** Seconds since 1970; null until the gateway has it. */
  timestamp: number | null = null;
  metadata: Record<string, unknown> = {};
  declare reasoning?: string | null;
  declare usages?: Record<string, number> | null;

  constructor(
    public role: Role,
    public content: ContentBlock[],
  ) {}

  /** A message with these words, of a person unless a role is given. */
  static textMessage(text: string, role: Role = 'user'): Message {
    return new Message(role, [new TextBlock(text)]);
  }

  /** A person's message with a picture. */
  static async imageMessage(image: Blob | Media, text = ''): Promise<Message> {
    const shown = new ImageBlock(image instanceof Blob ? await media(image) : image);
    return new Message('user', text === '' ? [shown] : [new TextBlock(text), shown]);
  }

  /** A message that answers calls. */
  static toolMessage(content: ContentBlock[]): Message {
    return new Message('tool', content);
  }

  // The spellings of AgentFlow's client: here until 1.0, and in `handspan/agentflow` for good.

  static text_message = Message.textMessage;
  static image_message = Message.imageMessage;
  static tool_message = Message.toolMessage;

  /** A message as it came over the wire. */
  static read(json: Partial<Message>): Message {
    const blocks = Array.isArray(json.content) ? json.content : [];
    return Object.assign(new Message('assistant', []), json, { content: blocks.map(readBlock) });
  }

  /** Its words. */
  text(): string {
    return this.content.map((block) => (block.type === 'text' ? block.text : '')).join('');
  }
}

/** The messages of an answer. */
export function readMessages(messages: unknown): Message[] {
  return Array.isArray(messages) ? messages.map((message) => Message.read(message)) : [];
}

/** What a person can send to the agent. */
export type Messages = string | Message | ReadonlyArray<string | Message>;

/** The same as a list of messages. */
export function messageList(said: Messages): Message[] {
  return [said].flat().map((one) => (typeof one === 'string' ? Message.textMessage(one) : one));
}
