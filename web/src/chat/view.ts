// What the chat shows: stored messages and live events in one form. Pure functions, no gateway.
import type { EndView, ListedCall, MessageView, SummaryView, VersionView } from 'handspan/rest';
import { showInvisible } from '../parts/invisible.ts';

/** An id that can't be guessed. Pages without https have no `crypto.randomUUID`. */
export function newId(): string {
  const hex = Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join(
    '',
  );
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

/** One call as a block of the chat. */
export interface CallView {
  id: string;
  tool: string;
  /** JSON as the model wrote it. */
  arguments: string;
  state: 'writing' | 'running' | 'waiting' | 'success' | 'error';
  /** Where it runs: `builtin`, `device(phone)`. Empty: not known yet. */
  origin: string;
  /** Seconds; undefined while it runs. */
  duration?: number | undefined;
  /** When it began here, in milliseconds. */
  since?: number | undefined;
  progress?: string | undefined;
  /** The result as JSON: `{"status": …}`. */
  envelope?: string | undefined;
  /** Images and files of the result. */
  files?: AttachmentView[] | undefined;
}

export interface PersonView {
  kind: 'person';
  key: string;
  text: string;
  seq?: number | undefined;
  /** When it was stored; none until then. */
  at?: string | undefined;
  attachments: AttachmentView[];
  /** A message that is sent, but not part of the session yet. */
  isWaiting: boolean;
  /** Why it could not be sent. */
  problem?: string | undefined;
}

export interface AttachmentView {
  kind: string;
  name: string;
  /** Where it can be read. */
  url: string;
}

/** One reply of the model with its calls: a round. */
export interface ReplyView {
  kind: 'reply';
  key: string;
  text: string;
  thinking: string;
  model: string;
  /** Empty while it arrives. */
  agent: string;
  /** The model that was meant, if another one has answered, and why. */
  inPlaceOf?: { model: string; reason: string };
  calls: CallView[];
  isLive: boolean;
  /** The number of its message, and when it was stored; none while it arrives. */
  seq?: number | undefined;
  at?: string | undefined;
}

/** What the person should know of a turn, or of the session. */
export interface Notice {
  text: string;
  isProblem: boolean;
  /** Whether it is true only until the next thing happens. */
  passes?: boolean | undefined;
  /** The code of the fault, for a way out that fits it. */
  fault?: string | undefined;
}

/** How a turn ended that did not end with a whole answer. */
export interface TurnEndView {
  kind: 'end';
  key: string;
  /** The number of the turn's last message. */
  after: number;
  notice: Notice;
  at: string;
}

/** What models read in place of the messages above it. */
export interface SummaryLineView {
  kind: 'summary';
  key: string;
  text: string;
  at: string;
}

export type EntryView = PersonView | ReplyView | TurnEndView | SummaryLineView;

/** What stands over a summary. */
export const SUMMARY_TITLE = 'What stands above, as the model reads it: a summary';

/** What is stored of a conversation. */
export interface StoredTalk {
  messages: MessageView[];
  /** How turns ended that did not end with a whole answer. */
  ends: EndView[];
  summaries: SummaryView[];
}

const ABORTS: { [code: string]: string } = {
  gateway_stopped: 'Stopped: the gateway ends. What had arrived is kept; say it again when it runs.',
  gateway_lost: 'Cut off: the gateway ended in the middle of this.',
};
const ENDS: { [reason in EndView['reason']]?: string } = {
  aborted: 'Stopped. What had arrived is kept.',
  limit: 'Stopped: the turn has used all its rounds of calls. Say "go on" for more.',
  errors: 'Stopped: too many rounds of calls failed in a row. Say what to do instead.',
  length: 'The answer was cut off: it reached the longest length of the model.',
  refusal: 'The model did not want to answer this.',
};

/** What the person should know of the end of a turn; nothing after a whole answer. */
export function endNotice(end: Pick<EndView, 'reason' | 'text' | 'fault'>): Notice | undefined {
  const { reason, text = '', fault } = end;
  if (reason === 'error') return { text, isProblem: true, fault: fault?.code };
  const words = ABORTS[fault?.code ?? ''] ?? ENDS[reason];
  return words ? { text: words, isProblem: false } : undefined;
}

/** Where a file of a message can be read. */
export type FileUrl = (seq: number, index: number) => string;

/** A reply that arrives now: the events of one round. */
export interface LiveRound {
  turn: string;
  number: number;
  text: string;
  thinking: string;
  calls: CallView[];
}

/** The entries of what is stored. `journal` has what messages do not tell of calls. */
export function storedEntries(
  { messages, ends, summaries }: StoredTalk,
  journal: ReadonlyMap<string, ListedCall>,
  urlOf: FileUrl,
): EntryView[] {
  const entries: EntryView[] = [];
  const calls = new Map<string, CallView>();
  let turn = '';
  let round = 0;
  const endsBySeq = new Map(ends.map((end) => [end.after, end]));
  for (const [index, message] of messages.entries()) {
    if (message.role === 'user') {
      if (message.turn !== turn) round = 0;
      turn = message.turn ?? '';
      entries.push(personEntry(message, urlOf));
    } else if (message.role === 'assistant') {
      round += 1;
      const shown = (message.calls ?? []).map((call) => storedCall(call, journal.get(call.id)));
      for (const call of shown) calls.set(call.id, call);
      const { content: text, model = '', agent = '', thinking = '' } = message;
      const key = turn ? roundKey(turn, round) : `m${message.seq}`;
      const { in_place_of: meant = '', reason = '', seq, at } = message;
      const instead = meant ? { inPlaceOf: { model: meant, reason } } : {};
      const said = { key, text, thinking, model, agent, ...instead };
      entries.push({ kind: 'reply', ...said, calls: shown, isLive: false, seq, at });
    } else {
      const call = calls.get(message.call_id ?? '');
      if (call) {
        finishCall(call, message.content);
        call.files = filesOf(message, urlOf);
      }
    }
    if (messages[index + 1]?.seq === message.seq) continue; // another result of the same message
    const end = endsBySeq.get(message.seq);
    const notice = end && endNotice(end);
    if (notice) entries.push({ kind: 'end', key: `end-${message.seq}`, after: message.seq, notice, at: end.at });
    for (const { after, at, text } of summaries) {
      if (after === message.seq) entries.push({ kind: 'summary', key: `summary-${after}-${at}`, text, at });
    }
  }
  return entries;
}

/** The versions of what begins at this message, in the order in which they began; none where nobody went back. */
export function versionsAt(versions: VersionView[], seq: number): VersionView[] {
  const current = versions.find((one) => one.is_current && one.seq === seq);
  return current ? versions.filter(({ fork }) => fork === current.fork) : [];
}

/**
 * The new entries; each that is as it was before is the same object as before, and is not drawn again. A long
 * conversation is read anew at every step of a turn.
 */
export function keepSame(before: EntryView[], entries: EntryView[]): EntryView[] {
  const known = new Map(before.map((entry) => [entry.key, entry]));
  return entries.map((entry) => {
    const old = known.get(entry.key);
    return old && JSON.stringify(old) === JSON.stringify(entry) ? old : entry;
  });
}

/** How many replies of a turn are stored: live rounds with a higher number are not among them. */
export function storedRounds(messages: MessageView[], turn: string): number {
  const first = messages.findIndex((message) => message.role === 'user' && message.turn === turn);
  if (first < 0) return 0;
  let count = 0;
  for (const message of messages.slice(first)) {
    if (message.role === 'user' && message.turn !== turn) break;
    if (message.role === 'assistant') count += 1;
  }
  return count;
}

export function liveEntry(round: LiveRound): ReplyView {
  const { text, thinking, calls } = round;
  const key = roundKey(round.turn, round.number);
  return { kind: 'reply', key, text, thinking, model: '', agent: '', calls, isLive: true };
}

/** A reply has one key from its first word on, so that nothing of it is made anew when it is stored. */
function roundKey(turn: string, number: number): string {
  return `${turn}/${number}`;
}

/**
 * A stored reply whose calls still run, with what events told of them: messages have no progress. A call that nothing
 * was told of since the last frame stays the same object, and is not drawn again.
 */
export function withProgress(entry: EntryView, live: ReadonlyMap<string, CallView>): EntryView {
  if (entry.kind !== 'reply' || !entry.calls.some((call) => !call.envelope && live.has(call.id))) return entry;
  const calls = entry.calls.map((call) => (call.envelope ? call : (live.get(call.id) ?? call)));
  return { ...entry, calls };
}

/** A live round whose calls know where they run. */
export function withOrigins(round: LiveRound, journal: ReadonlyMap<string, ListedCall>): LiveRound {
  const calls = round.calls.map((call) => {
    const origin = call.origin || (journal.get(call.id)?.origin ?? '');
    return origin === call.origin ? call : { ...call, origin };
  });
  return { ...round, calls };
}

/** Gives a call its result. */
export function finishCall(call: CallView, envelope: string): void {
  call.envelope = envelope;
  call.state = isSuccess(envelope) ? 'success' : 'error';
}

const BRIEF = 120;

/** Arguments as a few words for one line: the values, with their names where there are several. */
export function brief(args: string): string {
  try {
    const given = Object.entries(JSON.parse(args || '{}')).map(([name, value]) => {
      const text = typeof value === 'string' ? value : JSON.stringify(value);
      return [name, showInvisible(text.slice(0, BRIEF).replace(/\s+/g, ' '))];
    });
    return given.map((one) => (given.length > 1 ? one.join(': ') : one[1])).join(', ');
  } catch {
    return ''; // no JSON: the details have it as the model wrote it
  }
}

/** How the notice of a result begins that names the arguments which a person put in place of the call's. */
const EDITED = 'The user changed the arguments before approving this call. It ran with: ';

/** The arguments that the tool ran with: those of the call, or as a person edited them. Long ones may be cut. */
export function argumentsThatRan({ arguments: asked, envelope }: CallView): string {
  const notice = (envelope?.includes(EDITED) && readEnvelope(envelope).notice) || '';
  return notice.includes(EDITED) ? notice.slice(notice.indexOf(EDITED) + EDITED.length) : asked;
}

/** The parts of a result for people: the value, or the error with its code. */
export function readEnvelope(envelope: string): { value?: unknown; error?: string; code?: string; notice?: string } {
  try {
    const read = JSON.parse(envelope);
    if (read.status === 'success') return { value: read.result, notice: read.notice };
    return { error: String(read.message ?? ''), code: String(read.code ?? '') };
  } catch {
    return { value: envelope };
  }
}

function isSuccess(envelope: string): boolean {
  return readEnvelope(envelope).error === undefined;
}

function filesOf(message: MessageView, urlOf: FileUrl): AttachmentView[] {
  return (message.files ?? []).map(({ kind, name, index }) => ({ kind, name, url: urlOf(message.seq, index) }));
}

function personEntry(message: MessageView, urlOf: FileUrl): PersonView {
  return {
    kind: 'person',
    key: message.id || `m${message.seq}`,
    text: message.content,
    seq: message.seq,
    at: message.at,
    attachments: filesOf(message, urlOf),
    isWaiting: false,
  };
}

function storedCall(call: { id: string; name: string; arguments: string }, record: ListedCall | undefined): CallView {
  const isOpen = record !== undefined && record.state !== 'done';
  return {
    id: call.id,
    tool: call.name,
    arguments: call.arguments,
    state: record?.state === 'accepted' ? 'waiting' : 'running', // accepted, and not begun: a person is asked first
    origin: record?.origin ?? '',
    duration: record && !isOpen ? record.duration : undefined,
  };
}

/** Progress as one text: tools report texts, numbers or objects. */
export function progressText(value: unknown): string {
  if (typeof value === 'string') return value;
  if (typeof value === 'object' && value !== null && 'text' in value) return String(value.text);
  return JSON.stringify(value);
}

/** A session as Markdown, to be kept or passed on. */
export function exportText(name: string, entries: EntryView[]): string {
  const parts = entries.map((entry) => {
    if (entry.kind === 'person') return `## You\n\n${entry.text}`;
    if (entry.kind === 'end') return `**${entry.notice.text}**`;
    if (entry.kind === 'summary') return `**${SUMMARY_TITLE}**\n\n${entry.text.replace(/^/gm, '> ')}`;
    const calls = entry.calls.map(
      (call) => `\`\`\`\n${call.tool} ${argumentsThatRan(call)}\n→ ${call.envelope ?? '(no result)'}\n\`\`\``,
    );
    return [`## ${entry.model || 'Agent'}`, entry.text, ...calls].filter(Boolean).join('\n\n');
  });
  return [`# ${name}`, ...parts, ''].join('\n\n');
}
