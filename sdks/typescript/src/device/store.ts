/** Where a device keeps what has to outlive it: the resume token, ids that it has seen, answers on their way. */
export interface StateStore {
  load(): string | null | undefined | Promise<string | null | undefined>;
  save(text: string): void | Promise<void>;
  /** Called when the device is closed. */
  close?(): void;
}

/** Milliseconds that a page which is being left may take to let go. */
const PATIENCE = 1000;

/**
 * A store in the page's `localStorage`, with which a device comes back after a reload.
 * One tab has it at a time: a second one under the same key is a device without a memory of its own.
 */
export function localState(key = 'handspan.device', storage: Storage = globalThis.localStorage): StateStore {
  let isMine = true;
  let release = () => {};
  return {
    async load() {
      isMine = await new Promise<boolean>((resolve) => {
        const locks = globalThis.navigator?.locks; // only there in a secure context
        if (!locks) return resolve(true);
        const held = () =>
          new Promise<void>((letGo) => {
            release = letGo;
            resolve(true);
          });
        locks.request(`handspan:${key}`, { signal: AbortSignal.timeout(PATIENCE) }, held).catch(() => resolve(false));
      });
      return isMine ? storage.getItem(key) : null;
    },
    save(text) {
      if (isMine) storage.setItem(key, text);
    },
    close() {
      release();
    },
  };
}
