import type { Meta } from './types.js';

/** The fields of a run, with defaults for those that the gateway did not send. */
export function readMeta(meta: unknown, thread = ''): Meta {
  return { is_new_thread: false, thread_id: thread, ...(meta as Partial<Meta> | null | undefined) };
}
