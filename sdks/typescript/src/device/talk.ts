import type { Action } from './actions.js';
import type { MessageFrame, ServerFrame, TurnEvent } from './frames.js';

/** The conversation of a device with the role `chat`: which turn answers which message (ws.md 3.1, 6.5). No socket. */
export class Talk {
  /** The number of the last event that came. */
  lastEvent: number | undefined;
  #open = new Map<string, { frame: MessageFrame; turn?: string }>();

  begin(frame: MessageFrame): void {
    this.#open.set(frame.id, { frame });
  }

  /** The messages whose answer has not ended: they are sent on every new link. */
  open(): MessageFrame[] {
    return [...this.#open.values()].map(({ frame }) => frame);
  }

  heard(frame: ServerFrame): Action[] {
    if (frame.type === 'message_accepted') {
      const said = this.#open.get(frame.id);
      if (said) said.turn = frame.turn;
    } else if (frame.type === 'error' && frame.id && this.#open.has(frame.id)) {
      return this.#happened(frame.id, ended(frame.code === 'ABORTED' ? 'aborted' : 'error', frame.message));
    } else if (frame.type === 'event' && frame.seq > (this.lastEvent ?? 0)) {
      this.lastEvent = frame.seq;
      return [...this.#open].flatMap(([id, { turn }]) =>
        turn && turn === frame.turn ? this.#happened(id, frame.event) : [],
      );
    }
    return [];
  }

  /** What was said under this id is not sent, for this reason. */
  refuse(id: string, why: string): Action[] {
    return this.#happened(id, ended('error', why));
  }

  /** Every answer ends with this error. */
  lose(why: string): Action[] {
    return [...this.#open.keys()].flatMap((id) => this.#happened(id, ended('error', why)));
  }

  #happened(id: string, event: TurnEvent): Action[] {
    if (isEnd(event)) this.#open.delete(id);
    return [{ do: 'happened', id, event }];
  }
}

/** Whether nothing comes after this event. A turn that waits for the outcome of a call goes on (ws.md 3.7). */
export function isEnd(event: TurnEvent): boolean {
  return event.type === 'ended' && event.reason !== 'pending';
}

function ended(reason: string, text: string): TurnEvent {
  return { type: 'ended', reason, text };
}
