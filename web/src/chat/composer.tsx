import { useEffect, useRef } from 'preact/hooks';
import { bytes } from '../parts/ago.tsx';
import { Icon } from '../parts/icon.tsx';
import type { Draft } from './draft.ts';

interface ComposerProps {
  draft: Draft;
  isRunning: boolean;
  onSend: (text: string, files: File[]) => void;
  onStop: () => void;
}

/** Where the person writes. Enter sends; with Shift it begins a new line. Files are picked, dropped or pasted. */
export function Composer({ draft, isRunning, onSend, onStop }: ComposerProps) {
  const { text, files } = draft;
  const field = useRef<HTMLTextAreaElement>(null);
  const isEmpty = !text.value.trim() && files.value.length === 0;
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
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
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
      {files.value.length > 0 && (
        <ul class="chosen" aria-label="Attached files">
          {files.value.map((file) => (
            <li key={`${file.name}${file.size}`}>
              <Icon name={file.type.startsWith('image/') ? 'camera' : 'artifact'} />
              <span>{file.name}</span>
              <small>{bytes(file.size)}</small>
              <button type="button" class="plain" aria-label={`Remove ${file.name}`} onClick={() => draft.remove(file)}>
                <Icon name="close" />
              </button>
            </li>
          ))}
        </ul>
      )}
      <label class="round attach" title="Attach files, images or a photo">
        <Icon name="attach" />
        <span class="hidden">Attach files</span>
        <input
          type="file"
          multiple
          onChange={(event) => {
            draft.add(event.currentTarget.files ?? []);
            event.currentTarget.value = '';
          }}
        />
      </label>
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
        onInput={(event) => {
          text.value = event.currentTarget.value;
        }}
        onKeyDown={onKeyDown}
        onPaste={onPaste}
      />
      {isRunning && (
        <button type="button" class="round" aria-label="Stop" title="Stop" onClick={onStop}>
          <Icon name="stop" />
        </button>
      )}
      <button type="submit" class="main round" aria-label="Send" title="Send" disabled={isEmpty}>
        <Icon name="arrow_up" />
      </button>
    </form>
  );
}
