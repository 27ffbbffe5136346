import type { ShowMessage } from './channel-message.js';
import type { TurnEvent } from './frames.js';
import type { Backoff, WebSocketLike } from './link.js';
import type { BeginLogin } from './login.js';
import type { AskPermission } from './permission.js';
import type { AskPerson } from './question.js';
import type { StateStore } from './store.js';

/** The state of a device: `waiting` is the time between two attempts, `closed` is final. */
export interface DeviceState {
  readonly status: 'connecting' | 'online' | 'waiting' | 'closed';
  /** Why it waits, or why it was closed; else empty. */
  readonly reason: string;
  /** When the gateway has closed it: with which code (ws.md 9.2). */
  readonly code?: number | undefined;
}

export interface DeviceOptions {
  /** The gateway: `http://127.0.0.1:42617`, with its path prefix. In a page also relative: `/`. */
  url: string;
  /** A token of the gateway; not needed in the gateway's own page. */
  token?: string | undefined;
  /** The first part of the tools' names: `{label}__{tool}`. The gateway may change it: see `device.label`. */
  label?: string | undefined;
  /** A device's tools are for every session of its owner, a chat's for its own session. */
  role?: 'device' | 'chat' | undefined;
  /** The session of a chat: continue it, or begin it with this id. */
  session?: string | undefined;
  /** The agent of a chat's session; without one the session's own, or the default one. */
  agent?: string | undefined;
  /** False: the tools of a device have their own names, without the label. */
  prefix?: boolean | undefined;
  /** Lets the device resume after it was killed or reloaded: `localState()` in a page. */
  state?: StateStore | undefined;
  /** How many calls run at once; default 1. */
  concurrency?: number | undefined;
  /** Default: up to 30 s between two attempts, or 3 s for a gateway on this computer, and a random part. */
  backoff?: Backoff | undefined;
  /** Milliseconds without a message after which a ping is sent; after twice as many the link is closed. */
  heartbeat?: number | undefined;
  /** Used instead of the global one, which Node has from version 22: `webSocket: WebSocket` of the package `ws`. */
  webSocket?: (new (url: string, protocols: string[]) => WebSocketLike) | undefined;
  /** Gets every change of `device.state`. */
  onState?: ((state: DeviceState) => void) | undefined;
  /** Gets every event of a chat's session, also of turns that other clients began; `turn` is empty beside turns. */
  onEvent?: ((event: TurnEvent, turn: string) => void) | undefined;
  /** Asks the person at this device; without it the answer is no. */
  onPermission?: AskPermission | undefined;
  /** Begins a login for a handler that threw `LoginRequired`; without it the model gets that error. */
  onLogin?: BeginLogin | undefined;
  /** Asks the person of a chat the questions of its session; without it they go to other clients. */
  onQuestion?: AskPerson | undefined;
  /** Gets what agents write to the person with the tool `message`; without it they write to other clients. */
  onChannelMessage?: ShowMessage | undefined;
}
