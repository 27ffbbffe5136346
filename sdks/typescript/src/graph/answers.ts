import { Message } from '../messages/message.js';
import type { Meta } from './types.js';

/** What is known of a run, also when the gateway said little. */
export function readMeta(meta: unknown, thread = ''): Meta {
  return { is_new_thread: false, thread_id: thread, ...(meta as Partial<Meta> | null | undefined) };
}

/** The messages of an answer. */
export function readMessages(messages: unknown): Message[] {
  return Array.isArray(messages) ? messages.map((message) => Message.read(message)) : [];
}
