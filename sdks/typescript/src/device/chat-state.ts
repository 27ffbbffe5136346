import type { Action } from './actions.js';
import type { MessageFrame, ServerFrame, TurnEvent } from './frames.js';

/** The conversation of a device with the role `chat`: which turn answers which message (ws.md 3.1, 6.5). No socket. */
export class ChatState {
  /** The number of the last event. */
  lastEvent: number | undefined;
  #open = new Map<string, { frame: MessageFrame; turn?: string }>();

  beginTurn(frame: MessageFrame): void {
    this.#open.set(frame.id, { frame });
  }

  /** The messages whose turn has not ended: every new link sends them again. */
  openMessages(): MessageFrame[] {
    return [...this.#open.values()].map(({ frame }) => frame);
  }

  receive(frame: ServerFrame): Action[] {
    if (frame.type === 'message_accepted') {
      const opened = this.#open.get(frame.id);
      if (opened) opened.turn = frame.turn;
    } else if (frame.type === 'error' && frame.id && this.#open.has(frame.id)) {
      return this.#deliver(frame.id, endedEvent(frame.code === 'ABORTED' ? 'aborted' : 'error', frame.message));
    } else if (frame.type === 'event' && frame.seq > (this.lastEvent ?? 0)) {
      this.lastEvent = frame.seq;
      return [...this.#open].flatMap(([id, { turn }]) =>
        turn && turn === frame.turn ? this.#deliver(id, frame.event) : [],
      );
    }
    return [];
  }

  /** End the turn of this message with an error: the message is not sent. */
  refuseMessage(id: string, why: string): Action[] {
    return this.#deliver(id, endedEvent('error', why));
  }

  /** End every open turn with this error. */
  loseTurns(why: string): Action[] {
    return [...this.#open.keys()].flatMap((id) => this.#deliver(id, endedEvent('error', why)));
  }

  #deliver(id: string, event: TurnEvent): Action[] {
    if (isEnd(event)) this.#open.delete(id);
    return [{ do: 'event', id, event }];
  }
}

/** Whether this event is the last one of its turn. A turn that waits for the outcome of a call goes on (ws.md 3.7). */
export function isEnd(event: TurnEvent): boolean {
  return event.type === 'ended' && event.reason !== 'pending';
}

function endedEvent(reason: 'aborted' | 'error', text: string): TurnEvent {
  return { type: 'ended', reason, text };
}
