import { useSignal } from '@preact/signals';
import type { RefObject } from 'preact';
import { memo } from 'preact/compat';
import { useEffect, useRef } from 'preact/hooks';
import { Clock } from '../parts/ago.tsx';
import { Icon } from '../parts/icon.tsx';
import { Markdown } from '../parts/markdown.tsx';
import { QuestionCard } from '../questions/card.tsx';
import { openQuestions } from '../questions/open.ts';
import { href } from '../router.ts';
import type { Conversation } from './conversation.ts';
import { titleOfDay } from './days.ts';
import { chooseModel } from './model-choice.tsx';
import { PersonMessage } from './person.tsx';
import { Reply } from './reply.tsx';
import { Typing } from './typing.tsx';
import { type EntryView, type Notice, type ReplyView, SUMMARY_TITLE, type SummaryLineView } from './view.ts';

/** Entries are drawn in parts of so many: the newest part at first, one more in each step after it. */
const PART = 8;

/** An entry, with what it has to know of those around it. */
interface RowProps {
  entry: EntryView;
  isLast: boolean;
  /** The agent and the model that answer from here on, as words; empty where they are those of the reply before. */
  change: string;
  /** The number of the message with which the versions of this answer begin; none where they stand elsewhere. */
  versionSeq: number | undefined;
  /** The day that begins with it; empty where it is that of the entry before. */
  day: string;
}

/** Everything that was said in a session. The newest is drawn first, what is older in steps that hold nothing up. */
export function Messages({ chat, place }: { chat: Conversation; place: number }) {
  const rows = rowsOf(chat.entries.value);
  const isRunning = chat.isRunning.value;
  const wanted = place > 0 ? rows.findLastIndex(({ entry }) => seqOf(entry) <= place) : rows.length - 1;
  const count = Math.ceil(rows.length / PART);
  const from = useFirstShown(count, Math.max(0, Math.floor(wanted / PART)));
  const log = useRef<HTMLDivElement>(null);
  useFound(log, place > 0 && chat.isLoaded.value ? rows[wanted]?.entry.key : undefined);
  return (
    <div ref={log} class="messages" role="log" aria-label="Conversation" aria-busy={isRunning || from > 0}>
      {Array.from({ length: Math.max(0, count - from) }, (_, index) => {
        const part = from + index;
        const shown = rows.slice(part * PART, (part + 1) * PART);
        return <Part key={part} rows={shown} chat={chat} isWhole={part < count - 1} />;
      })}
      <OtherQuestions chat={chat} />
      <Typing chat={chat} />
      <TurnEnd chat={chat} />
    </div>
  );
}

/** Entries with what they have to know of those around them. */
function rowsOf(entries: EntryView[]): RowProps[] {
  const last = entries.findLastIndex(isSaid);
  let before: ReplyView | undefined;
  let begin: number | undefined;
  const dayOf = newDays();
  return entries.map((entry, index) => {
    const day = dayOf(entry);
    if (entry.kind !== 'reply') {
      begin = undefined;
      return { entry, isLast: index === last, change: '', versionSeq: undefined, day };
    }
    begin ??= entry.seq;
    // The versions of an answer stand under the last reply of its turn.
    const versionSeq = entries[index + 1]?.kind === 'reply' ? undefined : begin;
    const change = before ? changeOf(before, entry) : '';
    if (entry.model) before = entry;
    return { entry, isLast: index === last, change, versionSeq, day };
  });
}

/** Which agent and which model answer in place of those of the reply before; empty where nothing has changed. */
function changeOf(before: ReplyView, { agent, model, isLive }: ReplyView): string {
  if (isLive) return ''; // not known yet
  const names = [agent !== before.agent && agent, model !== before.model && model].filter(Boolean);
  return names.length > 0 ? `From here on: ${names.join(' with ')}` : '';
}

function isSaid({ kind }: EntryView): boolean {
  return kind === 'person' || kind === 'reply';
}

/** Tells for one entry after the other which day begins with it. A conversation of today alone has no such line. */
function newDays(): (entry: EntryView) => string {
  const now = new Date();
  let last = titleOfDay(now, now);
  return (entry) => {
    if (entry.kind === 'end' || entry.kind === 'summary' || !entry.at) return '';
    const day = titleOfDay(new Date(entry.at), now);
    if (day === last) return '';
    last = day;
    return day;
  };
}

/** The first part that is shown: it becomes less, step by step, and is the wanted one at once. */
function useFirstShown(count: number, wanted: number): number {
  const first = useSignal(Number.POSITIVE_INFINITY);
  // As long as nothing was read, nothing is known: else all of a long conversation would be drawn at once.
  if (count > 0) first.value = Math.min(first.value, Math.max(0, wanted - 1), Math.max(0, count - 2));
  const isWhole = first.value <= 0 || count === 0;
  useEffect(() => {
    if (isWhole) return;
    const timer = setTimeout(() => {
      first.value -= 1;
    });
    return () => clearTimeout(timer);
  }, [isWhole, first.value, first]);
  return first.value;
}

/** Shows the entry that was searched for, as soon as it is there. */
function useFound(log: RefObject<HTMLDivElement | null>, key: string | undefined): void {
  useEffect(() => {
    if (!key) return;
    const element = log.current?.querySelector(`[data-key="${CSS.escape(key)}"]`);
    // Twice: what was out of sight before may be higher than it was thought to be.
    for (const delay of [0, 100]) setTimeout(() => element?.scrollIntoView({ block: 'start' }), delay);
    element?.classList.add('found');
  }, [key, log]);
}

function seqOf(entry: EntryView): number {
  const seq = entry.kind === 'person' || entry.kind === 'reply' ? entry.seq : undefined;
  return seq ?? Number.POSITIVE_INFINITY;
}

interface PartProps {
  rows: RowProps[];
  chat: Conversation;
  /** Whether others follow it: then it is laid out only where it is in sight. */
  isWhole: boolean;
}

/** Some entries. While another part changes, this one is not looked at. */
const Part = memo(
  function Part({ rows, chat, isWhole }: PartProps) {
    return (
      <div class={isWhole ? 'messages-part whole' : 'messages-part'}>
        {rows.map((row) => (
          <Entry key={row.entry.key} {...row} chat={chat} />
        ))}
      </div>
    );
  },
  (one, other) =>
    one.chat === other.chat &&
    one.isWhole === other.isWhole &&
    one.rows.length === other.rows.length &&
    one.rows.every((row, index) => isSameRow(row, other.rows[index])),
);

function isSameRow(one: RowProps, other: RowProps | undefined): boolean {
  return (
    one.entry === other?.entry &&
    one.isLast === other.isLast &&
    one.change === other.change &&
    one.versionSeq === other.versionSeq &&
    one.day === other.day
  );
}

function Entry({ entry, chat, isLast, change, versionSeq, day }: RowProps & { chat: Conversation }) {
  if (entry.kind === 'end') {
    const isToldBelow = entry.after === chat.lastSeq.value;
    return isToldBelow ? null : <NoticeLine notice={entry.notice} />;
  }
  if (entry.kind === 'summary') return <SummaryLine entry={entry} />;
  return (
    <>
      {day && <ChangeLine text={day} />}
      {change && <ChangeLine text={change} />}
      {entry.kind === 'person' ? (
        <PersonMessage entry={entry} chat={chat} />
      ) : (
        <Reply entry={entry} chat={chat} isLast={isLast} versionSeq={versionSeq} />
      )}
    </>
  );
}

/** What is another one from here on: the day, the agent, the model. */
function ChangeLine({ text }: { text: string }) {
  return (
    <p class="change-line" role="note">
      {text}
    </p>
  );
}

/** That the model reads a summary of what stands above, which opens here. */
function SummaryLine({ entry }: { entry: SummaryLineView }) {
  return (
    <details class="summary-line">
      <summary>
        {SUMMARY_TITLE} (<Clock at={entry.at} />)
      </summary>
      <Markdown text={entry.text} />
    </details>
  );
}

/** Open questions of this chat that stand under no call that is shown. */
function OtherQuestions({ chat }: { chat: Conversation }) {
  const calls = new Set(
    chat.entries.value
      .filter((entry): entry is ReplyView => entry.kind === 'reply')
      .flatMap((entry) => entry.calls.map(({ id }) => id)),
  );
  const others = openQuestions.value.filter((one) => one.session === chat.id && !calls.has(one.call_id));
  return (
    <>
      {others.map((question) => (
        <QuestionCard key={question.id} question={question} />
      ))}
    </>
  );
}

/** How the last turn ended if that was no whole answer, or what holds the running one up; and what can be done. */
function TurnEnd({ chat }: { chat: Conversation }) {
  const ended = chat.entries.value.findLast(({ kind }) => kind === 'end');
  const stored = ended?.kind === 'end' && ended.after === chat.lastSeq.value ? ended.notice : undefined;
  const isBegun = chat.isRunning.value || chat.outbox.all.value.length > 0;
  const notice = chat.notice.value ?? (isBegun ? undefined : stored);
  const isKey = notice?.fault === 'auth' || notice?.fault === 'quota';
  return (
    <>
      {notice && <NoticeLine notice={notice} isNew={notice === chat.notice.value} />}
      {chat.canRetry.value && (
        <div class="retry">
          <button type="button" onClick={() => chat.regenerate()}>
            <Icon name="redo" /> Try again
          </button>
          <button type="button" onClick={chooseModel}>
            <Icon name="model" /> Change the model
          </button>
          {isKey && <a href={href('models')}>Check its key under Models</a>}
        </div>
      )}
    </>
  );
}

/** What the person should know. Screen readers say it when it is new. */
function NoticeLine({ notice, isNew = false }: { notice: Notice; isNew?: boolean }) {
  return (
    <p class={notice.isProblem ? 'problem' : 'muted notice'} role={isNew ? 'alert' : 'note'}>
      {notice.isProblem && <Icon name="alert" />}
      {notice.text}
    </p>
  );
}
