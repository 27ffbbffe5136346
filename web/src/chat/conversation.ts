import { batch, computed, signal } from '@preact/signals';
import { Device, type MessageOptions, type TurnEvent } from 'handspan/device';
import type { EndView, ListedCall, MessageView, SessionView, UsageSum } from 'handspan/rest';
import { BASE, messageOf, rest } from '../gateway/rest.ts';
import { toast } from '../parts/toast.tsx';
import { preview, readFile, upload } from './upload.ts';
import {
  type AttachmentView,
  type CallView,
  type EntryView,
  endNotice,
  finishCall,
  type LiveRound,
  liveEntry,
  type Notice,
  newId,
  progressText,
  storedEntries,
  storedRounds,
  withOrigins,
  withProgress,
} from './view.ts';

/** A message of this page that is not part of the session yet. */
interface Unsent {
  id: string;
  text: string;
  files: File[];
  attachments: AttachmentView[];
  options: MessageOptions;
  /** Why it could not be sent; empty while it is on its way. */
  problem: string;
}

/** The event of this type. */
type Of<Type extends TurnEvent['type']> = Extract<TurnEvent, { type: Type }>;

/** One session as this page shows it: stored messages, the reply that arrives, and the link to the gateway. */
export class Conversation {
  readonly messages = signal<MessageView[]>([]);
  readonly #ends = signal<EndView[]>([]);
  readonly record = signal<SessionView | undefined>(undefined);
  readonly usage = signal<UsageSum | undefined>(undefined);
  readonly isLoaded = signal(false);
  readonly isRunning = signal(false);
  readonly notice = signal<Notice | undefined>(undefined);
  readonly link = signal('connecting');
  readonly agent = signal('');
  readonly #journal = signal<ReadonlyMap<string, ListedCall>>(new Map());
  readonly #rounds = signal<LiveRound[]>([]);
  readonly #unsent = signal<Unsent[]>([]);
  /** The messages that the gateway has not taken yet. */
  readonly #onTheWay = new Set<string>();
  /** Resolves when the files of all messages so far are uploaded. */
  #uploaded: Promise<unknown> = Promise.resolve();
  /** What is shown of the end of the last turn, as long as this page saw it. */
  readonly #lastEnd = signal<Notice | undefined>(undefined);
  /** What is shown because the last reading failed. */
  #unread: Notice | undefined;
  #device: Device;
  #waiting: [TurnEvent, string][] = [];
  #isDrawing = false;
  #isClosed = false;
  #reading: Promise<boolean> | undefined;
  #next: Promise<boolean> | undefined;
  #readsState = false;
  /** How many events were taken. */
  #taken = 0;

  constructor(
    readonly id: string,
    readonly isNew = false,
  ) {
    this.#device = this.#connect();
  }

  /** What is stored. While a reply arrives, it stays as it is, and is not drawn anew. */
  readonly #stored = computed<EntryView[]>(() =>
    storedEntries(this.messages.value, this.#ends.value, this.#journal.value, (seq, index) =>
      this.#fileUrl(seq, index),
    ),
  );

  readonly #storedCalls = computed(
    () => new Set(this.messages.value.flatMap(({ calls = [] }) => calls.map(({ id }) => id))),
  );

  /** What is shown, the oldest first. */
  readonly entries = computed<EntryView[]>(() => {
    const messages = this.messages.value;
    const rounds = this.#rounds.value;
    const stored = this.#storedCalls.value;
    // An answer that is made anew is another turn than the one of its message: there the calls tell that it is stored.
    const live = rounds
      .filter(({ turn, number }) => number > storedRounds(messages, turn))
      .filter((round) => !round.calls.some(({ id }) => stored.has(id)))
      .map(liveEntry);
    const calls = new Map(rounds.flatMap((round) => round.calls.map((call) => [call.id, call])));
    return [
      ...this.#stored.value.map((entry) => withProgress(entry, calls)),
      ...live,
      ...this.#unsent.value.map(({ id, text, attachments, problem }): EntryView => {
        return { kind: 'person', key: id, text, attachments, isWaiting: true, problem };
      }),
    ];
  });

  /** Whether the notice tells the end of the last turn, which is then not shown a second time. */
  readonly tellsEnd = computed(() => this.#lastEnd.value !== undefined && this.notice.value === this.#lastEnd.value);

  /** The number of the last stored message. */
  readonly lastSeq = computed(() => this.messages.value.at(-1)?.seq);

  /** Whether the last turn did not end with a whole answer, and can begin again. */
  readonly canRetry = computed(() => {
    const hasEnded = this.tellsEnd.value || this.#ends.value.some(({ after }) => after === this.lastSeq.value);
    return hasEnded && !this.isRunning.value && this.#unsent.value.length === 0;
  });

  /** Whether there is nothing to show, as in a new chat. */
  readonly isEmpty = computed(() => this.entries.value.length === 0 && (this.isNew || this.isLoaded.value));

  /** Sends a message. While a turn runs, it joins that turn at its next round. */
  send(text: string, files: File[] = [], options: MessageOptions = {}): void {
    const unsent = { id: newId(), text, files, attachments: files.map(preview), options, problem: '' };
    this.#unsent.value = [...this.#unsent.value, unsent];
    this.notice.value = undefined;
    void this.#deliver(unsent);
  }

  /** Sends a message again that could not be sent. */
  retry(id: string): void {
    const unsent = this.#unsent.value.find((one) => one.id === id);
    if (!unsent) return;
    this.#setProblem(id, '');
    void this.#deliver(unsent);
  }

  /** Removes a message that could not be sent. */
  discard(id: string): void {
    this.#drop((one) => one.id === id);
  }

  /** Asks again with another text and the same files, in place of a message and all that followed it. */
  async replace(seq: number, text: string, attachments: AttachmentView[]): Promise<void> {
    const files = await Promise.all(attachments.map(readFile));
    this.messages.value = this.messages.value.filter((message) => message.seq < seq);
    this.send(text, files, { replaces: seq });
  }

  stop(): void {
    this.#device.abort();
  }

  regenerate(): void {
    const last = this.messages.value.findLastIndex(({ role }) => role === 'user');
    const seq = this.messages.value[last]?.seq ?? 0;
    this.messages.value = this.messages.value.slice(0, last + 1);
    this.#ends.value = this.#ends.value.filter(({ after }) => after < seq);
    this.notice.value = undefined;
    this.isRunning.value = true;
    this.#device.regenerate();
  }

  /** Lets another agent answer from the next message on. */
  chooseAgent(name: string): void {
    this.agent.value = name;
    this.#device.close();
    this.#device = this.#connect();
  }

  /** Leaves the session, after the messages that are still on their way. */
  close(): void {
    this.#isClosed = true;
    this.#leave();
  }

  /**
   * Reads the stored messages again, and returns whether they were read. `readsState`: also whether a turn runs, which
   * events tell later on.
   */
  refresh({ readsState = false } = {}): Promise<boolean> {
    this.#readsState ||= readsState;
    // A turn of quick calls begins many rounds in a second. Whoever asks while a request is on its way shares the next one.
    this.#next ??= (this.#reading ?? Promise.resolve()).then(() => {
      this.#next = undefined;
      this.#reading = this.#read().finally(() => {
        this.#reading = undefined;
      });
      return this.#reading;
    });
    return this.#next;
  }

  async #read(): Promise<boolean> {
    const path = { session_id: this.id };
    const readsState = this.#readsState;
    this.#readsState = false;
    const taken = this.#taken;
    try {
      const [{ messages, ends }, { calls }, record, { state }] = await Promise.all([
        rest.get('/api/sessions/{session_id}/messages', { path, query: { full: true } }),
        rest.get('/api/calls', { query: { session: this.id, limit: 1000 } }),
        rest.get('/api/sessions/{session_id}', { path }),
        rest.get('/api/sessions/{session_id}/state', { path }),
      ]);
      batch(() => {
        this.messages.value = messages;
        this.#ends.value = ends;
        this.#drop(({ id }) => messages.some((one) => one.id === id));
        if (this.notice.value === this.#unread) this.notice.value = undefined;
        const journal = new Map(calls.map((call) => [call.id, call]));
        this.#journal.value = journal;
        this.#rounds.value = this.#rounds.value.map((round) => withOrigins(round, journal));
        this.record.value = record;
        this.agent.value ||= record.persona ?? '';
        // Events that came meanwhile know it better: the turn may have ended after the state was read.
        if (readsState && taken === this.#taken) this.isRunning.value = state === 'running';
        // What has arrived is shown until it is read: the reply of a turn that is over is among the messages now.
        if (!this.isRunning.value && taken === this.#taken) this.#rounds.value = [];
        this.isLoaded.value = true;
      });
      const { usage } = await rest.get('/api/usage', { query: { by: 'session', session: this.id } });
      this.usage.value = usage[0];
      return true;
    } catch (error) {
      this.#unread = { text: messageOf(error), isProblem: true };
      if (!this.#isClosed) this.notice.value = this.#unread;
      return false;
    }
  }

  #connect(): Device {
    const device = new Device({
      url: `${BASE}/`,
      role: 'chat',
      session: this.id,
      agent: this.agent.value,
      onEvent: (event, turn) => this.#queue(event, turn),
      onState: ({ status, reason }) => {
        if (device !== this.#device) return;
        this.link.value = status;
        if (status === 'closed' && !this.#isClosed) this.notice.value = { text: reason, isProblem: true };
        if (status === 'online') void this.refresh({ readsState: true });
      },
    });
    queueMicrotask(() => void device.run());
    return device;
  }

  #fileUrl(seq: number, index: number): string {
    return rest.url(`/api/sessions/${encodeURIComponent(this.id)}/messages/${seq}/files/${index}`);
  }

  /** Sends a message with its files, and waits for the end of its turn. One that is refused stays, with the reason. */
  async #deliver({ id, text, files, options }: Unsent): Promise<void> {
    const problem = await this.#attempt(id, text, files, options);
    this.#onTheWay.delete(id);
    this.#leave();
    const isRead = await this.refresh();
    if (problem) this.#setProblem(id, problem);
    else if (isRead) this.#drop((one) => one.id === id); // it was answered, and replaced meanwhile
  }

  async #attempt(id: string, text: string, files: File[], options: MessageOptions): Promise<string> {
    this.#onTheWay.add(id);
    try {
      const uploads = Promise.all(files.map(upload));
      uploads.catch(() => {}); // its reason is read below
      // Messages keep their order, also when one has to wait for its files.
      const ready = this.#uploaded.then(() => uploads);
      this.#uploaded = ready.catch(() => {});
      const parts = await ready;
      const given = { id, join: true, ...options, ...(parts.length > 0 && { parts }) };
      let problem = '';
      for (let device: Device | undefined; device !== this.#device; ) {
        // Again if another agent was chosen meanwhile, over its link: the id keeps it from being added twice.
        device = this.#device;
        if (device.state.status === 'closed') return device.state.reason;
        this.#onTheWay.add(id);
        problem = await this.#follow(id, device.say(text, given));
      }
      return problem;
    } catch (error) {
      return messageOf(error);
    }
  }

  /** Waits for the end of the turn that answers a message of this page; returns why there was none. */
  async #follow(id: string, events: AsyncGenerator<TurnEvent, void>): Promise<string> {
    let problem = '';
    for await (const event of events) {
      const isRefused = event.type === 'ended' && this.#onTheWay.has(id) && event.reason !== 'done';
      if (isRefused) problem = event.text || 'it was stopped before.';
      this.#onTheWay.delete(id);
      this.#leave();
    }
    return problem;
  }

  /** Ends the link once the person has left and nothing of this page is on its way. */
  #leave(): void {
    if (this.#isClosed && this.#onTheWay.size === 0) this.#device.close();
  }

  #setProblem(id: string, problem: string): void {
    const unsent = this.#unsent.value.find((one) => one.id === id);
    if (!unsent) return;
    if (this.#isClosed)
      toast(`“${unsent.text.slice(0, 80)}” was not sent: ${problem}`, { isProblem: true, stays: true });
    this.#unsent.value = this.#unsent.value.map((one) => (one === unsent ? { ...one, problem } : one));
  }

  #drop(isGone: (unsent: Unsent) => boolean): void {
    const gone = this.#unsent.value.filter(isGone);
    if (gone.length === 0) return;
    for (const { url } of gone.flatMap(({ attachments }) => attachments)) URL.revokeObjectURL(url);
    this.#unsent.value = this.#unsent.value.filter((one) => !gone.includes(one));
  }

  /** Takes an event with the next frame: hundreds of them in a second are drawn sixty times. */
  #queue(event: TurnEvent, turn: string): void {
    this.#waiting.push([event, turn]);
    if (this.#isDrawing) return;
    this.#isDrawing = true;
    const draw = () => {
      this.#isDrawing = false;
      const events = this.#waiting.splice(0);
      batch(() => {
        for (const [one, of] of events) this.#take(one, of);
        this.#rounds.value = this.#rounds.value.map((round) => ({ ...round }));
      });
    };
    if (document.visibilityState === 'hidden') setTimeout(draw, 250);
    else requestAnimationFrame(draw);
  }

  #take(event: TurnEvent, turn: string): void {
    this.#taken += 1;
    if (event.type === 'ended') {
      this.#end(event);
      return;
    }
    this.isRunning.value = true;
    if (event.type === 'round') {
      const others = this.#rounds.value.filter((one) => one.turn === turn && one.number !== event.number);
      const begun = { turn, number: event.number, text: '', thinking: '', calls: [] };
      this.#rounds.value = [...others, begun];
      void this.refresh();
      return;
    }
    const round = this.#rounds.value.at(-1);
    if (round) this.#takeInRound(event, round);
  }

  #takeInRound(event: TurnEvent, round: LiveRound): void {
    switch (event.type) {
      case 'text':
        round.text += event.text;
        break;
      case 'thinking':
        round.thinking += event.text;
        break;
      case 'call_arguments':
        this.#write(event, round);
        break;
      case 'call_started': {
        const known = { id: event.id, tool: event.name, arguments: event.arguments };
        const begun: CallView = { ...known, state: 'running', origin: '', since: Date.now() };
        round.calls = [...round.calls.filter((one) => one.state !== 'writing'), begun];
        break;
      }
      case 'call_progress':
        this.#change(round, event.id, (call) => {
          const waits = typeof event.value === 'object' && event.value !== null && 'waiting_for' in event.value;
          return { ...call, progress: progressText(event.value), state: waits ? 'waiting' : 'running' };
        });
        break;
      case 'call_finished':
        this.#change(round, event.id, (call) => {
          const ended = { ...call, duration: event.duration };
          finishCall(ended, event.envelope);
          return ended;
        });
        break;
      case 'retry':
        this.notice.value = { text: `${event.reason} It is tried again in ${event.seconds} s.`, isProblem: false };
        break;
      case 'queued':
        this.notice.value = { text: `${event.model} is busy: the request waits for its turn.`, isProblem: false };
        break;
    }
  }

  /** A call that the model is still writing: each event has the next piece of its name and its arguments. */
  #write({ index, name, arguments: piece }: Of<'call_arguments'>, round: LiveRound): void {
    const id = `writing-${index}`;
    if (!round.calls.some((one) => one.id === id)) {
      round.calls = [...round.calls, { id, tool: '', arguments: '', origin: '', state: 'writing' }];
    }
    this.#change(round, id, (call) => ({ ...call, tool: call.tool + name, arguments: call.arguments + piece }));
  }

  #change(round: LiveRound, id: string, change: (call: CallView) => CallView): void {
    round.calls = round.calls.map((call) => (call.id === id ? change(call) : call));
  }

  #end(ended: Of<'ended'>): void {
    this.#lastEnd.value = this.notice.value = endNotice(ended);
    if (ended.reason === 'pending') return;
    this.isRunning.value = false;
    void this.refresh();
  }
}
