import { useSignal } from '@preact/signals';
import { memo } from 'preact/compat';
import { CopyButton } from '../parts/code.tsx';
import { Icon } from '../parts/icon.tsx';
import { attempt } from '../parts/toast.tsx';
import { CallBlock } from './call.tsx';
import type { Conversation } from './conversation.ts';
import { Files } from './files.tsx';
import { Markdown } from './markdown.tsx';
import type { Notice, PersonView, ReplyView } from './view.ts';

/** Everything that was said in a session. */
export function Messages({ chat }: { chat: Conversation }) {
  const entries = chat.entries.value;
  const isRunning = chat.isRunning.value;
  const notice = chat.notice.value;
  const last = entries.findLastIndex(({ kind }) => kind !== 'end');
  return (
    <div class="messages" role="log" aria-label="Conversation" aria-busy={isRunning}>
      {entries.map((entry, index) =>
        entry.kind === 'person' ? (
          <PersonMessage key={entry.key} entry={entry} chat={chat} />
        ) : entry.kind === 'end' ? (
          !(chat.tellsEnd.value && entry.after === chat.lastSeq.value) && (
            <NoticeLine key={entry.key} notice={entry.notice} />
          )
        ) : (
          <Reply key={entry.key} entry={entry} chat={chat} isLast={index === last} />
        ),
      )}
      <div role="status">
        {isRunning && (
          <p class="typing">
            <span class="hidden">The agent is at work</span>
          </p>
        )}
      </div>
      {notice && <NoticeLine notice={notice} isNew />}
      {entries[last]?.kind === 'person' && chat.canRetry.value && (
        <button type="button" class="retry" onClick={() => chat.regenerate()}>
          Try again
        </button>
      )}
    </div>
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

const PersonMessage = memo(function PersonMessage({ entry, chat }: { entry: PersonView; chat: Conversation }) {
  const edited = useSignal<string | undefined>(undefined);
  if (edited.value !== undefined && entry.seq !== undefined) {
    const { seq } = entry;
    return (
      <form
        class="edit"
        onSubmit={(event) => {
          event.preventDefault();
          void attempt(() => chat.replace(seq, edited.value ?? '', entry.attachments));
        }}
      >
        <textarea
          aria-label="Edit the message"
          dir="auto"
          rows={Math.min(10, edited.value.split('\n').length + 1)}
          value={edited.value}
          onInput={(event) => {
            edited.value = event.currentTarget.value;
          }}
        />
        <div class="buttons">
          <button
            type="button"
            onClick={() => {
              edited.value = undefined;
            }}
          >
            Cancel
          </button>
          <button type="submit" class="main" disabled={!edited.value.trim()}>
            Ask again
          </button>
        </div>
      </form>
    );
  }
  return (
    <article class="person" aria-label="You">
      <Files files={entry.attachments} />
      {entry.text && (
        <div class="bubble" dir="auto">
          {entry.text}
        </div>
      )}
      {entry.problem ? (
        <NotSent id={entry.key} problem={entry.problem} chat={chat} />
      ) : entry.isWaiting ? (
        <small class="queued">{chat.isRunning.value ? 'queued: it joins at the next step' : 'sending'}</small>
      ) : (
        <div class="entry-actions">
          <CopyButton text={entry.text} label="Copy the message" />
          <button
            type="button"
            class="plain"
            title="Edit and ask again"
            aria-label="Edit and ask again"
            onClick={() => {
              edited.value = entry.text;
            }}
          >
            <Icon name="edit" />
          </button>
        </div>
      )}
    </article>
  );
});

/** Below a message that could not be sent: why, and what can be done. */
function NotSent({ id, problem, chat }: { id: string; problem: string; chat: Conversation }) {
  return (
    <div class="not-sent">
      <p class="problem" role="alert">
        <Icon name="alert" />
        <span>Not sent: {problem}</span>
      </p>
      <div class="buttons">
        <button type="button" onClick={() => chat.discard(id)}>
          Remove
        </button>
        <button type="button" class="main" onClick={() => chat.retry(id)}>
          Send again
        </button>
      </div>
    </div>
  );
}

interface ReplyProps {
  entry: ReplyView;
  chat: Conversation;
  isLast: boolean;
}

const Reply = memo(function Reply({ entry, chat, isLast }: ReplyProps) {
  const isDone = isLast && !entry.isLive && !chat.isRunning.value;
  return (
    <article class="reply" aria-label="Agent">
      {entry.thinking && (
        <details class="thinking">
          <summary>Thinking</summary>
          <p>{entry.thinking}</p>
        </details>
      )}
      {entry.text && <Markdown text={entry.text} />}
      {entry.calls.length > 0 && (
        <div class={entry.calls.length > 1 ? 'calls parallel' : 'calls'}>
          {entry.calls.length > 1 && <small class="together">{entry.calls.length} calls side by side</small>}
          {entry.calls.map((call) => (
            <CallBlock key={call.id} call={call} />
          ))}
        </div>
      )}
      {(isDone || (entry.text && entry.calls.length === 0 && !entry.isLive)) && (
        <div class="entry-actions">
          {entry.text && <CopyButton text={entry.text} label="Copy the answer" />}
          {isDone && (
            <button
              type="button"
              class="plain"
              title="Answer again"
              aria-label="Answer again"
              onClick={() => chat.regenerate()}
            >
              <Icon name="redo" />
            </button>
          )}
          {entry.model && <small class="by">{entry.model}</small>}
        </div>
      )}
    </article>
  );
});
