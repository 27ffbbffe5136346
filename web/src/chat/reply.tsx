import { memo } from 'preact/compat';
import { Clock } from '../parts/ago.tsx';
import { CopyButton } from '../parts/code.tsx';
import { Icon } from '../parts/icon.tsx';
import { Markdown } from '../parts/markdown.tsx';
import { CallBlock } from './call.tsx';
import type { Conversation } from './conversation.ts';
import { Versions } from './versions.tsx';
import type { ReplyView } from './view.ts';

interface ReplyProps {
  entry: ReplyView;
  chat: Conversation;
  isLast: boolean;
  /** The number of the message with which the versions of this answer begin. */
  versionSeq: number | undefined;
}

/** One reply of the model with its calls; under the last one of a turn what can be done with the answer. */
export const Reply = memo(function Reply({ entry, chat, isLast, versionSeq }: ReplyProps) {
  const isDone = isLast && !entry.isLive && !chat.isRunning.value;
  return (
    <article class="entry reply" data-key={entry.key} aria-label="Agent">
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
          <Versions chat={chat} seq={versionSeq} />
          {entry.text && <CopyButton text={entry.text} label="Copy as Markdown" />}
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
          {entry.model && (
            <small class="by" title={entry.inPlaceOf?.reason}>
              {entry.model}
              {entry.inPlaceOf && ` in place of ${entry.inPlaceOf.model}`}
            </small>
          )}
          {entry.at && <Clock at={entry.at} />}
        </div>
      )}
    </article>
  );
});
