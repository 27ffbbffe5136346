import type { Meta } from './types.js';

/** What is known of a run, also when the gateway said little. */
export function readMeta(meta: unknown, thread = ''): Meta {
  return { is_new_thread: false, thread_id: thread, ...(meta as Partial<Meta> | null | undefined) };
}
