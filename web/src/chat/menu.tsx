import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { rest } from '../gateway/rest.ts';
import { confirm } from '../parts/confirm.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { Icon } from '../parts/icon.tsx';
import { attempt } from '../parts/toast.tsx';
import { go } from '../router.ts';
import type { Conversation } from './conversation.ts';
import { exportText } from './view.ts';

/** What can be done with a session: rename, export, delete. */
export function SessionMenu({ chat }: { chat: Conversation }) {
  const name = useSignal<string | undefined>(undefined);
  const menu = useRef<HTMLDetailsElement>(null);
  const path = { session_id: chat.id };
  /** The focus stays at the menu: a dialog that opens now gives it back there. */
  const close = () => {
    menu.current?.querySelector('summary')?.focus();
    menu.current?.removeAttribute('open');
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Escape') close();
  };
  useEffect(() => {
    const closeOutside = ({ target }: Event) => {
      if (target instanceof Node && !menu.current?.contains(target)) menu.current?.removeAttribute('open');
    };
    for (const type of ['pointerdown', 'focusin']) document.addEventListener(type, closeOutside);
    return () => {
      for (const type of ['pointerdown', 'focusin']) document.removeEventListener(type, closeOutside);
    };
  }, []);
  const rename = async () => {
    const done = await attempt(async () => {
      await rest.put('/api/sessions/{session_id}', { path, body: { name: name.value ?? '' } });
      await chat.refresh();
    });
    if (done) name.value = undefined;
  };
  const remove = async () => {
    close();
    const text = 'Its messages, its calls and its files are removed. This can not be taken back.';
    if (!(await confirm('Delete this chat?', text, 'Delete'))) return;
    if (await attempt(() => rest.delete('/api/sessions/{session_id}', { path }), 'The chat is deleted.')) go('chat');
  };
  return (
    <>
      <details class="menu" ref={menu} onKeyDown={onKeyDown}>
        <summary class="plain" aria-label="More for this chat" title="More for this chat">
          <Icon name="more" />
        </summary>
        <div class="menu-items">
          <button
            type="button"
            onClick={() => {
              close();
              name.value = chat.record.value?.name ?? '';
            }}
          >
            <Icon name="edit" /> Rename
          </button>
          <button
            type="button"
            onClick={() => {
              close();
              save(chat);
            }}
          >
            <Icon name="download" /> Export
          </button>
          <button type="button" class="danger" onClick={() => void remove()}>
            <Icon name="trash" /> Delete
          </button>
        </div>
      </details>
      <Dialog
        title="Rename this chat"
        isOpen={name.value !== undefined}
        onClose={() => {
          name.value = undefined;
        }}
      >
        <form
          class="fields"
          onSubmit={(event) => {
            event.preventDefault();
            void rename();
          }}
        >
          <input
            type="text"
            aria-label="Name"
            value={name.value}
            maxLength={200}
            onInput={(event) => {
              name.value = event.currentTarget.value;
            }}
          />
          <footer class="buttons">
            <button type="submit" class="main" disabled={!name.value?.trim()}>
              Rename
            </button>
          </footer>
        </form>
      </Dialog>
    </>
  );
}

/** Gives the person the session as a file. */
function save(chat: Conversation): void {
  const name = chat.record.value?.name || 'chat';
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([exportText(name, chat.entries.value)], { type: 'text/markdown' }));
  link.download = `${name.replace(/[^\p{L}\p{N}]+/gu, '-').slice(0, 60)}.md`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
