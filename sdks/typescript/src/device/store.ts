/** Stores the state of a device across reloads: the resume token, the calls seen, the unacknowledged answers. */
export interface StateStore {
  load(): string | null | undefined | Promise<string | null | undefined>;
  save(text: string): void | Promise<void>;
  /** Called when the device is closed. */
  close?(): void;
}

/** Milliseconds to wait until a page that is being left releases the state. */
const PATIENCE = 1000;

/**
 * A store in the page's `localStorage`, with which a device resumes after a reload.
 * One tab uses it at a time: a second tab with the same key is a device without a saved state.
 */
export function localState(key = 'handspan.device', storage: Storage | undefined = pageStorage()): StateStore {
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
      return isMine ? storage?.getItem(key) : null;
    },
    save(text) {
      if (isMine) storage?.setItem(key, text);
    },
    close() {
      release();
    },
  };
}

/** The page's storage; undefined where the browser forbids it. A reload is a new device then. */
function pageStorage(): Storage | undefined {
  try {
    return globalThis.localStorage;
  } catch {
    return undefined;
  }
}
