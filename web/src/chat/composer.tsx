import { useEffect, useRef } from 'preact/hooks';
import { Icon } from '../parts/icon.tsx';
import { useMedia } from '../parts/media.ts';
import { Chosen } from './chosen.tsx';
import { CompletionList } from './completion-list.tsx';
import { useCompletions } from './completions.ts';
import type { Conversation } from './conversation.ts';
import type { Draft } from './draft.ts';

interface ComposerProps {
  chat: Conversation;
  draft: Draft;
  onSend: (text: string, files: File[]) => void;
  onKeys: () => void;
}

/** Where the person writes. Enter sends; with Shift it begins a new line. Files are picked, dropped or pasted. */
export function Composer({ chat, draft, onSend, onKeys }: ComposerProps) {
  const { text, files } = draft;
  const field = useRef<HTMLTextAreaElement>(null);
  const isRunning = chat.isRunning.value;
  const isEmpty = !text.value.trim() && files.value.length === 0;
  const completions = useCompletions({ chat, draft, field, onKeys });
  useEffect(() => {
    // Not on a phone: its keyboard would cover the page.
    if (matchMedia('(hover: hover)').matches) field.current?.focus({ preventScroll: true });
  }, []);
  const send = () => {
    if (isEmpty) return;
    const said = draft.take();
    onSend(said.text, said.files);
    field.current?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.isComposing || completions.onKeyDown(event)) return;
    if (event.key === 'ArrowUp' && !text.value && chat.editLast()) event.preventDefault();
    if (event.key === 'Escape' && !text.value && isRunning) chat.stop();
    if (event.key !== 'Enter' || event.shiftKey) return;
    event.preventDefault();
    send();
  };
  const onPaste = (event: ClipboardEvent) => {
    const pasted = [...(event.clipboardData?.files ?? [])];
    if (pasted.length === 0) return;
    event.preventDefault();
    draft.add(pasted);
  };
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <CompletionList completions={completions} />
      <Chosen draft={draft} />
      <Attach draft={draft} />
      <label class="hidden" for="say">
        Message
      </label>
      <textarea
        id="say"
        dir="auto"
        ref={field}
        rows={1}
        placeholder={isRunning ? 'Say more' : 'Ask for something'}
        value={text.value}
        {...completions.attributes}
        onInput={(event) => {
          text.value = event.currentTarget.value;
          completions.onInput();
        }}
        onKeyDown={onKeyDown}
        onBlur={completions.close}
        onPaste={onPaste}
      />
      {isRunning && (
        <button type="button" class="round" aria-label="Stop" title="Stop" onClick={() => chat.stop()}>
          <Icon name="stop" />
        </button>
      )}
      <button type="submit" class="main round" aria-label="Send" title="Send" disabled={isEmpty}>
        <Icon name="arrow_up" />
      </button>
    </form>
  );
}

/** Files are picked here; on a phone the camera stands beside it. */
function Attach({ draft }: { draft: Draft }) {
  const isTouched = useMedia('(pointer: coarse)');
  const add = (input: HTMLInputElement) => {
    draft.add(input.files ?? []);
    input.value = '';
  };
  return (
    <>
      <label class="round attach" title="Attach files, images or a photo">
        <Icon name="attach" />
        <span class="hidden">Attach files</span>
        <input type="file" multiple onChange={(event) => add(event.currentTarget)} />
      </label>
      {isTouched && (
        <label class="round attach" title="Take a photo">
          <Icon name="camera" />
          <span class="hidden">Take a photo</span>
          <input type="file" accept="image/*" capture="environment" onChange={(event) => add(event.currentTarget)} />
        </label>
      )}
    </>
  );
}
