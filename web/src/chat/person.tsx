import { useSignal } from '@preact/signals';
import { memo } from 'preact/compat';
import { messageOf } from '../gateway/rest.ts';
import { Clock } from '../parts/ago.tsx';
import { CopyButton } from '../parts/code.tsx';
import { Problem } from '../parts/empty.tsx';
import { Icon } from '../parts/icon.tsx';
import type { Conversation } from './conversation.ts';
import { Files } from './files.tsx';
import { Versions } from './versions.tsx';
import type { PersonView } from './view.ts';

/** A message of the person: it can be copied, and edited to ask again. */
export const PersonMessage = memo(function PersonMessage({ entry, chat }: { entry: PersonView; chat: Conversation }) {
  if (entry.seq !== undefined && chat.editing.value === entry.seq) return <Edit entry={entry} chat={chat} />;
  return (
    <article class="entry person" data-key={entry.key} aria-label="You">
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
          {entry.at && <Clock at={entry.at} />}
          <Versions chat={chat} seq={entry.seq} />
          <CopyButton text={entry.text} label="Copy the message" />
          <button
            type="button"
            class="plain"
            title="Edit and ask again"
            aria-label="Edit and ask again"
            onClick={() => {
              chat.editing.value = entry.seq;
            }}
          >
            <Icon name="edit" />
          </button>
        </div>
      )}
    </article>
  );
});

function Edit({ entry, chat }: { entry: PersonView; chat: Conversation }) {
  const text = useSignal(entry.text);
  const problem = useSignal('');
  const close = () => {
    chat.editing.value = undefined;
  };
  const ask = async () => {
    if (!text.value.trim()) return;
    try {
      await chat.replace(entry.seq ?? 0, text.value, entry.attachments);
      close();
      // Not on a phone: its keyboard would cover the answer.
      if (matchMedia('(hover: hover)').matches) document.getElementById('say')?.focus({ preventScroll: true });
    } catch (error) {
      problem.value = messageOf(error);
    }
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Escape') close();
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    void ask();
  };
  return (
    <form
      class="edit"
      onSubmit={(event) => {
        event.preventDefault();
        void ask();
      }}
    >
      <textarea
        aria-label="Edit the message"
        dir="auto"
        ref={(field) => {
          if (field && document.activeElement !== field) {
            field.focus();
            field.setSelectionRange(field.value.length, field.value.length);
          }
        }}
        rows={Math.min(10, text.value.split('\n').length + 1)}
        value={text.value}
        onKeyDown={onKeyDown}
        onInput={(event) => {
          text.value = event.currentTarget.value;
        }}
      />
      <Problem text={problem.value} />
      <div class="buttons">
        <button type="button" onClick={close}>
          Cancel
        </button>
        <button type="submit" class="main" disabled={!text.value.trim()}>
          Ask again
        </button>
      </div>
    </form>
  );
}

/** Below a message that could not be sent: why, and what can be done. */
function NotSent({ id, problem, chat }: { id: string; problem: string; chat: Conversation }) {
  return (
    <div class="not-sent">
      <p class="problem" role="alert">
        <Icon name="alert" />
        <span>Not sent: {problem}</span>
      </p>
      <div class="buttons">
        <button type="button" onClick={() => chat.outbox.drop((one) => one.id === id)}>
          Remove
        </button>
        <button type="button" class="main" onClick={() => chat.outbox.retry(id)}>
          Send again
        </button>
      </div>
    </div>
  );
}
