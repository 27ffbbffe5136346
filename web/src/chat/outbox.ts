import { signal } from '@preact/signals';
import type { Device, MessageOptions, TurnEvent } from 'handspan/device';
import { messageOf } from '../gateway/rest.ts';
import { toast } from '../parts/toast.tsx';
import { preview, upload } from './upload.ts';
import { type AttachmentView, newId } from './view.ts';

/** A message of this page that is not part of the session yet. */
export interface Unsent {
  id: string;
  text: string;
  files: File[];
  attachments: AttachmentView[];
  options: MessageOptions;
  /** Why it could not be sent; empty while it is on its way. */
  problem: string;
}

/** What an outbox needs of the conversation that it belongs to. */
interface Session {
  /** The link to the gateway. It is another one after another agent was chosen. */
  readonly device: Device;
  readonly isClosed: boolean;
  /** Resolves when the link may be used. */
  readonly opened: Promise<void>;
  /** Reads the stored messages again; returns whether they were read. */
  refresh(): Promise<boolean>;
  /** Called when less is on its way than before. */
  leave(): void;
}

/** The messages of this page on their way into a session: with their files, in their order, each until it is there. */
export class Outbox {
  readonly all = signal<Unsent[]>([]);
  /** The messages that the gateway has not taken yet. */
  readonly #onTheWay = new Set<string>();
  /** Resolves when the files of all messages so far are uploaded. */
  #uploaded: Promise<unknown> = Promise.resolve();

  constructor(readonly session: Session) {}

  get isEmpty(): boolean {
    return this.#onTheWay.size === 0;
  }

  send(text: string, files: File[], options: MessageOptions): void {
    const unsent = { id: newId(), text, files, attachments: files.map(preview), options, problem: '' };
    this.all.value = [...this.all.value, unsent];
    void this.#deliver(unsent);
  }

  /** Sends a message again that could not be sent. */
  retry(id: string): void {
    const unsent = this.all.value.find((one) => one.id === id);
    if (!unsent) return;
    this.#setProblem(id, '');
    void this.#deliver(unsent);
  }

  /** Removes the messages that are gone, or stored by now. */
  drop(isGone: (unsent: Unsent) => boolean): void {
    const gone = this.all.value.filter(isGone);
    if (gone.length === 0) return;
    for (const { url } of gone.flatMap(({ attachments }) => attachments)) URL.revokeObjectURL(url);
    this.all.value = this.all.value.filter((one) => !gone.includes(one));
  }

  /** Sends a message with its files, and waits for the end of its turn. One that is refused stays, with the reason. */
  async #deliver({ id, text, files, options }: Unsent): Promise<void> {
    const problem = await this.#attempt(id, text, files, options);
    this.#onTheWay.delete(id);
    this.session.leave();
    const isRead = await this.session.refresh();
    if (problem) this.#setProblem(id, problem);
    else if (isRead) this.drop((one) => one.id === id); // it was answered, and replaced meanwhile
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
      await this.session.opened;
      const given = { id, join: true, ...options, ...(parts.length > 0 && { parts }) };
      let problem = '';
      for (let device: Device | undefined; device !== this.session.device; ) {
        // Again if another agent was chosen meanwhile, over its link: the id keeps it from being added twice.
        device = this.session.device;
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
      this.session.leave();
    }
    return problem;
  }

  #setProblem(id: string, problem: string): void {
    const unsent = this.all.value.find((one) => one.id === id);
    if (!unsent) return;
    if (this.session.isClosed)
      toast(`“${unsent.text.slice(0, 80)}” was not sent: ${problem}`, { isProblem: true, stays: true });
    this.all.value = this.all.value.map((one) => (one === unsent ? { ...one, problem } : one));
  }
}
