import { signal } from '@preact/signals';
import type { TurnEvent } from 'handspan/device';
import type { ListedCall } from 'handspan/rest';
import { type CallView, finishCall, type LiveRound, type Notice, progressText, withOrigins } from './view.ts';

/** The event of this type. */
type Of<Type extends TurnEvent['type']> = Extract<TurnEvent, { type: Type }>;

/** The replies that arrive now, made of the events of their rounds. */
export class LiveRounds {
  readonly all = signal<LiveRound[]>([]);

  /** Forgets them: what they said is among the messages. */
  clear(): void {
    if (this.all.value.length > 0) this.all.value = [];
  }

  /** Says that the events of a frame are taken: each round that is shown is a new object. */
  draw(): void {
    this.all.value = this.all.value.map((round) => ({ ...round }));
  }

  /** Begins a round of a turn, in place of one with its number that was cut off. */
  begin(turn: string, number: number): void {
    const others = this.all.value.filter((one) => one.turn === turn && one.number !== number);
    this.all.value = [...others, { turn, number, text: '', thinking: '', calls: [] }];
  }

  /** Tells calls where they run. */
  locate(journal: ReadonlyMap<string, ListedCall>): void {
    this.all.value = this.all.value.map((round) => withOrigins(round, journal));
  }

  /** Takes an event of the last round; returns what the person should know of it. */
  take(event: TurnEvent): Notice | undefined {
    const round = this.all.value.at(-1);
    if (!round) return undefined;
    switch (event.type) {
      case 'text':
        round.text += event.text;
        break;
      case 'thinking':
        round.thinking += event.text;
        break;
      case 'call_arguments':
        write(event, round);
        break;
      case 'call_started':
        start(event, round);
        break;
      case 'call_progress':
        change(round, event.id, (call) => {
          const waits = typeof event.value === 'object' && event.value !== null && 'waiting_for' in event.value;
          const text = progressText(event.value);
          const earlier = isOfAgent(event.value) ? (call.progress ?? '') : '';
          return { ...call, progress: earlier + text, state: waits ? 'waiting' : 'running' };
        });
        break;
      case 'call_finished':
        change(round, event.id, (call) => {
          const ended = { ...call, duration: event.duration };
          finishCall(ended, event.envelope);
          return ended;
        });
        break;
      case 'retry':
        return passing(`${event.reason} It is tried again in ${wholeSeconds(event.seconds)}.`);
      case 'queued':
        return passing(event.reason ?? `${event.model} is busy: the request waits for its turn.`);
      case 'budget_low':
        return { text: event.text, isProblem: false };
      case 'model_switched':
        return { text: `${event.model} answers in place of ${event.of}: ${event.reason}`, isProblem: false };
    }
    return undefined;
  }
}

/** Whether progress is a line of what another agent does: all its lines are shown. */
function isOfAgent(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'agent' in value && 'session' in value;
}

function start({ id, name, arguments: given }: Of<'call_started'>, round: LiveRound): void {
  const begun: CallView = { id, tool: name, arguments: given, state: 'running', origin: '', since: Date.now() };
  round.calls = [...round.calls.filter((one) => one.state !== 'writing'), begun];
}

/** A call that the model is still writing: each event has the next piece of its name and its arguments. */
function write({ index, name, arguments: piece }: Of<'call_arguments'>, round: LiveRound): void {
  const id = `writing-${index}`;
  if (!round.calls.some((one) => one.id === id)) {
    round.calls = [...round.calls, { id, tool: '', arguments: '', origin: '', state: 'writing' }];
  }
  change(round, id, (call) => ({ ...call, tool: call.tool + name, arguments: call.arguments + piece }));
}

function change(round: LiveRound, id: string, make: (call: CallView) => CallView): void {
  round.calls = round.calls.map((call) => (call.id === id ? make(call) : call));
}

function passing(text: string): Notice {
  return { text, isProblem: false, passes: true };
}

/** Seconds for people: `3.39` is `4 seconds`. */
function wholeSeconds(seconds: number): string {
  const whole = Math.max(1, Math.ceil(seconds));
  return `${whole} ${whole === 1 ? 'second' : 'seconds'}`;
}
