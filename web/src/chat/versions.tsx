import { Icon } from '../parts/icon.tsx';
import { attempt } from '../parts/toast.tsx';
import type { Conversation } from './conversation.ts';
import { versionsAt } from './view.ts';

/** The versions of what begins at this message (SPEC L8): which of them is shown, and the way to the others. */
export function Versions({ chat, seq }: { chat: Conversation; seq: number | undefined }) {
  const all = seq === undefined ? [] : versionsAt(chat.versions.value, seq);
  if (all.length < 2) return null;
  const at = all.findIndex(({ is_current: isCurrent }) => isCurrent);
  const step = (by: number, label: string) => {
    const other = all[at + by];
    return (
      <button
        type="button"
        class="plain"
        aria-label={label}
        title={other ? `${label}: ${other.text.slice(0, 80)}` : label}
        disabled={!other || chat.isRunning.value}
        onClick={() => other && void attempt(() => chat.chooseVersion(other.branch))}
      >
        <Icon name="chevron" class={by < 0 ? 'flipped' : ''} />
      </button>
    );
  };
  return (
    <span class="versions">
      {step(-1, 'The version before')}
      <small>
        <span class="hidden">Version </span>
        {at + 1}/{all.length}
      </small>
      {step(1, 'The next version')}
    </span>
  );
}
