import type { Backoff, WebSocketLike } from './link.js';
import type { AskPermission } from './permission.js';
import type { AskPerson } from './question.js';
import type { StateStore } from './store.js';

/** Where a device is: `waiting` is the time between two tries, `closed` is for good. */
export interface DeviceState {
  readonly status: 'connecting' | 'online' | 'waiting' | 'closed';
  /** Why it waits, or why it was closed; else empty. */
  readonly reason: string;
}

export interface DeviceOptions {
  /** The gateway: `http://127.0.0.1:42617`, with its path prefix. In a page also relative: `/`. */
  url: string;
  /** A token of the gateway's; not needed in the gateway's own page. */
  token?: string | undefined;
  /** Under which the tools are known: `{label}__{tool}`. The gateway may change it: see `device.label`. */
  label?: string | undefined;
  /** A device's tools are for every session of its owner, a chat's for its own session. */
  role?: 'device' | 'chat' | undefined;
  /** The session of a chat, to go on with or to begin under this id. */
  session?: string | undefined;
  /** False: the tools of a device are known under their own names. */
  prefix?: boolean | undefined;
  /** With which the device comes back after it was killed or reloaded: `localState()` in a page. */
  state?: StateStore | undefined;
  /** How many calls run at once; 1 when it is missing. */
  concurrency?: number | undefined;
  backoff?: Backoff | undefined;
  /** Milliseconds of silence after which the gateway is asked for a word; after twice as many the link is given up. */
  heartbeat?: number | undefined;
  /** In place of the global one, which Node has from version 22: `webSocket: WebSocket` of the package `ws`. */
  webSocket?: (new (url: string, protocols: string[]) => WebSocketLike) | undefined;
  /** Hears of every change of `device.state`. */
  onState?: ((state: DeviceState) => void) | undefined;
  /** Asks the person at this device; without it the answer is no. */
  onPermission?: AskPermission | undefined;
  /** Shows questions of a chat's session to its person, and gives their answers; without it they go to other clients. */
  onQuestion?: AskPerson | undefined;
}
