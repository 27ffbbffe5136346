import { batch, computed, signal } from '@preact/signals';
import { Device, type TurnEvent } from 'handspan/device';
import type {
  ContextUse,
  EndView,
  ListedCall,
  MessageView,
  SessionView,
  SummaryView,
  UsageSum,
  VersionView,
} from 'handspan/rest';
import { onUpdate } from '../gateway/live.ts';
import { BASE, messageOf, rest } from '../gateway/rest.ts';
import { changeChat } from './chats.ts';
import { LiveRounds } from './live-rounds.ts';
import { Outbox } from './outbox.ts';
import { StateWatch } from './state-watch.ts';
import { readFile } from './upload.ts';
import {
  type AttachmentView,
  type EntryView,
  endNotice,
  keepSame,
  liveEntry,
  type Notice,
  storedEntries,
  storedRounds,
  withProgress,
} from './view.ts';

/** One session as this page shows it: stored messages, the reply that arrives, and the link to the gateway. */
export class Conversation {
  readonly messages = signal<MessageView[]>([]);
  readonly versions = signal<VersionView[]>([]);
  readonly record = signal<SessionView | undefined>(undefined);
  readonly usage = signal<UsageSum | undefined>(undefined);
  readonly isLoaded = signal(false);
  /** Whether the gateway has no such session. */
  readonly isMissing = signal(false);
  readonly isRunning = signal(false);
  /** When the last event came, in milliseconds. */
  readonly heard = signal(Date.now());
  readonly notice = signal<Notice | undefined>(undefined);
  readonly link = signal('connecting');
  readonly agent = signal('');
  /** The model that is chosen for this chat alone; empty: its agent's. */
  readonly model = signal('');
  /** How full the context is (SPEC L3); undefined where the model has no limit. */
  readonly context = signal<ContextUse | undefined>(undefined);
  /** How many messages the person has sent from here: the page goes to the newest one. */
  readonly sent = signal(0);
  /** The number of the message that the person edits. */
  readonly editing = signal<number | undefined>(undefined);
  readonly rounds = new LiveRounds();
  readonly outbox: Outbox;
  readonly #ends = signal<EndView[]>([]);
  readonly #summaries = signal<SummaryView[]>([]);
  readonly #journal = signal<ReadonlyMap<string, ListedCall>>(new Map());
  /** What is shown of the end of the last turn, as long as this page saw it. */
  readonly #lastEnd = signal<Notice | undefined>(undefined);
  readonly #watch = new StateWatch(() => void this.refresh({ readsState: true }));
  /** What is shown because the last reading failed. */
  #unread: Notice | undefined;
  #device: Device;
  #waiting: [TurnEvent, string][] = [];
  #isDrawing = false;
  /** Whether the link was opened. */
  #isOpen = false;
  #isClosed = false;
  #reading: Promise<boolean> | undefined;
  #next: Promise<boolean> | undefined;
  #readsState = false;
  /** How many events were taken. */
  #taken = 0;
  /** What is done as soon as there is a link. */
  #whenOnline: (() => void)[] = [];
  readonly #endUpdates: () => void;
  /** Resolves when the link may be used: it is open, or opens as soon as it can. */
  readonly opened: Promise<void>;

  constructor(
    readonly id: string,
    readonly isNew = false,
  ) {
    this.outbox = new Outbox(this);
    this.#device = this.#connect();
    this.opened = this.#open();
    this.#endUpdates = onUpdate(({ topic, data }) => {
      const isThis = topic === 'sessions' && [data.session_id, data.id].includes(this.id);
      if (isThis && this.isLoaded.value) void this.refresh({ readsState: true });
    });
  }

  /** The link to the gateway. */
  get device(): Device {
    return this.#device;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** What is stored. While a reply arrives, it stays as it is, and is not drawn anew. */
  readonly #stored = computed<EntryView[]>(() => {
    const talk = { messages: this.messages.value, ends: this.#ends.value, summaries: this.#summaries.value };
    const entries = storedEntries(talk, this.#journal.value, (seq, index) => this.#fileUrl(seq, index));
    this.#shown = keepSame(this.#shown, entries);
    return this.#shown;
  });
  #shown: EntryView[] = [];

  readonly #storedCalls = computed(
    () => new Set(this.messages.value.flatMap(({ calls = [] }) => calls.map(({ id }) => id))),
  );

  /** What is shown, the oldest first. */
  readonly entries = computed<EntryView[]>(() => {
    const messages = this.messages.value;
    const rounds = this.rounds.all.value;
    const stored = this.#storedCalls.value;
    // An answer that is made anew is another turn than the one of its message: there the calls tell that it is stored.
    const live = rounds
      .filter(({ turn, number }) => number > storedRounds(messages, turn))
      .filter((round) => !round.calls.some(({ id }) => stored.has(id)))
      .map(liveEntry);
    const calls = new Map(rounds.flatMap((round) => round.calls.map((call) => [call.id, call])));
    return [
      ...this.#stored.value.map((entry) => (calls.size > 0 ? withProgress(entry, calls) : entry)),
      ...live,
      ...this.outbox.all.value.map(({ id, text, attachments, problem }): EntryView => {
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
    return hasEnded && !this.isRunning.value && this.outbox.all.value.length === 0;
  });

  /** How the last turn ended, if that was not a whole answer. */
  readonly lastEnd = computed(() => this.#ends.value.find(({ after }) => after === this.lastSeq.value));

  /** Whether there is nothing to show, as in a new chat. */
  readonly isEmpty = computed(() => this.entries.value.length === 0 && (this.isNew || this.isLoaded.value));

  /** Sends a message. While a turn runs, it joins that turn at its next round. */
  send(text: string, files: File[] = [], replaces?: number): void {
    this.notice.value = undefined;
    this.sent.value += 1;
    this.outbox.send(text, files, replaces === undefined ? {} : { replaces });
  }

  /** Asks again with another text and the same files, in place of a message and all that followed it. */
  async replace(seq: number, text: string, attachments: AttachmentView[]): Promise<void> {
    const files = await Promise.all(attachments.map(readFile));
    this.messages.value = this.messages.value.filter((message) => message.seq < seq);
    this.send(text, files, seq);
  }

  /** Begins to edit the last message of the person; false when there is none that can be. */
  editLast(): boolean {
    const last = this.messages.value.findLast(({ role }) => role === 'user');
    if (!last || this.isRunning.value) return false;
    this.editing.value = last.seq;
    return true;
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
    this.heard.value = Date.now();
    this.#device.regenerate();
  }

  /** Goes on with another version of the conversation. */
  async chooseVersion(branch: number): Promise<void> {
    const path = { session_id: this.id, branch: String(branch) };
    await rest.post('/api/sessions/{session_id}/versions/{branch}', { path });
    this.notice.value = undefined;
    await this.refresh({ readsState: true });
  }

  /** Lets another agent answer from the next message on. */
  chooseAgent(name: string): void {
    this.agent.value = name;
    this.#device.close();
    this.#device = this.#connect();
    if (this.#isOpen) this.#run(this.#device);
  }

  /** Lets this model answer from the next turn on; empty: that of the agent. */
  async chooseModel(name: string): Promise<void> {
    const before = this.model.value;
    this.model.value = name;
    try {
      await this.opened;
      await changeChat(this.id, { model: name });
    } catch (error) {
      this.model.value = before;
      throw error;
    }
  }

  /** Lets another agent answer the last message again. */
  regenerateWith(agent: string): void {
    this.#whenOnline.push(() => this.regenerate());
    this.chooseAgent(agent);
  }

  /** Leaves the session, after the messages that are still on their way. */
  close(): void {
    this.#isClosed = true;
    this.#endUpdates();
    this.#watch.end();
    this.leave();
  }

  /** Ends the link once the person has left and nothing of this page is on its way. */
  leave(): void {
    if (this.#isClosed && this.outbox.isEmpty) this.#device.close();
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

  /** Opens the link, unless the gateway says that there is no such session: a link would make one. */
  async #open(): Promise<void> {
    if (!this.isNew) {
      const path = { session_id: this.id };
      const error = await rest.get('/api/sessions/{session_id}', { path }).then(
        () => undefined,
        (problem: { status?: number }) => problem,
      );
      if (error?.status === 404) {
        this.isMissing.value = true;
        return;
      }
    }
    if (this.#isClosed && this.outbox.isEmpty) return;
    this.#isOpen = true;
    this.#run(this.#device);
  }

  async #read(): Promise<boolean> {
    const path = { session_id: this.id };
    const readsState = this.#readsState;
    this.#readsState = false;
    const taken = this.#taken;
    try {
      const [{ messages, ends, summaries }, { calls }, record, { state }, { versions }] = await Promise.all([
        rest.get('/api/sessions/{session_id}/messages', { path, query: { full: true } }),
        rest.get('/api/calls', { query: { session: this.id, limit: 1000 } }),
        rest.get('/api/sessions/{session_id}', { path }),
        rest.get('/api/sessions/{session_id}/state', { path }),
        rest.get('/api/sessions/{session_id}/versions', { path }),
      ]);
      // Events that came meanwhile know it better: the turn may have ended after the state was read.
      const isSilent = taken === this.#taken;
      batch(() => {
        this.messages.value = messages;
        this.#ends.value = ends;
        this.#summaries.value = summaries;
        this.versions.value = versions;
        this.outbox.drop(({ id }) => messages.some((one) => one.id === id));
        if (this.notice.value === this.#unread) this.notice.value = undefined;
        const journal = new Map(calls.map((call) => [call.id, call]));
        this.#journal.value = journal;
        this.rounds.locate(journal);
        this.agent.value ||= record.persona ?? '';
        this.#takeRecord(record);
        if (readsState && isSilent) this.isRunning.value = state === 'running';
        // What has arrived is shown until it is read: the reply of a turn that is over is among the messages now.
        if (!this.isRunning.value && isSilent) this.rounds.clear();
        this.isLoaded.value = true;
      });
      this.#watch.note(this.isRunning.value);
      const { usage } = await rest.get('/api/usage', { query: { by: 'session', session: this.id } });
      this.usage.value = usage[0];
      return true;
    } catch (error) {
      this.#unread = { text: messageOf(error), isProblem: true };
      if (!this.#isClosed) this.notice.value = this.#unread;
      return false;
    }
  }

  #takeRecord(record: SessionView): void {
    this.record.value = record;
    this.model.value = record.model ?? '';
    // While a turn runs its events know it better; after it, a model without a limit has none.
    if (record.context || !this.isRunning.value) this.context.value = record.context;
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
        if (status !== 'online') return;
        void this.refresh({ readsState: true });
        for (const work of this.#whenOnline.splice(0)) work();
      },
    });
    return device;
  }

  #run(device: Device): void {
    queueMicrotask(() => void device.run());
  }

  #fileUrl(seq: number, index: number): string {
    return rest.url(`/api/sessions/${encodeURIComponent(this.id)}/messages/${seq}/files/${index}`);
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
        this.rounds.draw();
        this.heard.value = Date.now();
      });
      this.#watch.note(this.isRunning.value);
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
    if (event.type === 'usage' && event.context) this.context.value = event.context;
    if (event.type === 'compacted') void this.refresh(); // the summary is a line of the transcript
    if (event.type === 'round') {
      this.rounds.begin(turn, event.number);
      void this.refresh();
      return;
    }
    const notice = this.rounds.take(event);
    if (notice || this.notice.value?.passes) this.notice.value = notice;
  }

  #end(ended: Extract<TurnEvent, { type: 'ended' }>): void {
    this.#lastEnd.value = this.notice.value = endNotice(ended);
    if (ended.reason === 'pending') return;
    this.isRunning.value = false;
    void this.refresh();
  }
}
