import { isEnd } from './chat-state.js';
import type { TurnEvent } from './frames.js';

/** The events of open turns, for their listeners. */
export class TurnStreams {
  #open = new Map<string, { events: TurnEvent[]; wake: () => void }>();

  /** The events of the turn that answers this message, up to the last one. */
  listen(id: string): AsyncGenerator<TurnEvent, void> {
    const turn = { events: [], wake: () => {} };
    this.#open.set(id, turn);
    return this.#events(id, turn);
  }

  deliver(id: string, event: TurnEvent): void {
    const turn = this.#open.get(id);
    turn?.events.push(event);
    turn?.wake();
    if (isEnd(event)) this.#open.delete(id); // also without a listener
  }

  async *#events(id: string, turn: { events: TurnEvent[]; wake: () => void }): AsyncGenerator<TurnEvent, void> {
    try {
      for (;;) {
        for (let event = turn.events.shift(); event; event = turn.events.shift()) {
          yield event;
          if (isEnd(event)) return;
        }
        await new Promise<void>((wake) => {
          turn.wake = wake;
        });
      }
    } finally {
      this.#open.delete(id);
    }
  }
}
