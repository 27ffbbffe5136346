import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { attempt } from '../parts/toast.tsx';
import { changeChat } from './chats.ts';

/** The name of a chat in place of its text: Enter and the way out keep it, Escape does not. */
export function NameField({ id, name, onDone }: { id: string; name: string; onDone: () => void }) {
  const text = useSignal(name);
  const field = useRef<HTMLInputElement>(null);
  const isOver = useRef(false);
  useEffect(() => {
    field.current?.focus();
    field.current?.select();
  }, []);
  const keep = async () => {
    if (isOver.current) return;
    isOver.current = true;
    const given = text.value.trim();
    if (given && given !== name) await attempt(() => changeChat(id, { name: given }));
    onDone();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.isComposing) return;
    if (event.key === 'Enter') void keep();
    if (event.key !== 'Escape') return;
    event.preventDefault(); // a dialog around it stays
    isOver.current = true;
    onDone();
  };
  return (
    <input
      type="text"
      class="name-field"
      aria-label="Name of the chat"
      dir="auto"
      ref={field}
      maxLength={200}
      value={text.value}
      onKeyDown={onKeyDown}
      onBlur={() => void keep()}
      onInput={(event) => {
        text.value = event.currentTarget.value;
      }}
    />
  );
}
