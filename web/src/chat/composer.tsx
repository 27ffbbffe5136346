import { useSignal } from '@preact/signals';
import type { MessageOptions } from 'handspan/device';
import { useEffect, useRef } from 'preact/hooks';
import { rest } from '../gateway/rest.ts';
import { bytes } from '../parts/ago.tsx';
import { Icon } from '../parts/icon.tsx';
import { attempt } from '../parts/toast.tsx';
import type { AttachmentView } from './view.ts';

type Parts = NonNullable<MessageOptions['parts']>;

interface ComposerProps {
  isRunning: boolean;
  onSend: (text: string, parts: Parts, attachments: AttachmentView[]) => void;
  onStop: () => void;
}

/** Where the person writes. Enter sends; with Shift it begins a new line. Files are picked, dropped or pasted. */
export function Composer({ isRunning, onSend, onStop }: ComposerProps) {
  const text = useSignal('');
  const files = useSignal<File[]>([]);
  const isSending = useSignal(false);
  const field = useRef<HTMLTextAreaElement>(null);
  const isEmpty = !text.value.trim() && files.value.length === 0;
  useEffect(() => {
    // Not on a phone: its keyboard would cover the page.
    if (matchMedia('(hover: hover)').matches) field.current?.focus({ preventScroll: true });
  }, []);
  const add = (more: Iterable<File>) => {
    files.value = [...files.value, ...more];
  };
  const send = async () => {
    if (isEmpty || isSending.value) return;
    isSending.value = true;
    const done = await attempt(async () => {
      const parts = await Promise.all(files.value.map(upload));
      onSend(text.value, parts, files.value.map(preview));
    });
    isSending.value = false;
    if (!done) return;
    text.value = '';
    files.value = [];
    field.current?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    void send();
  };
  const onPaste = (event: ClipboardEvent) => {
    const pasted = [...(event.clipboardData?.files ?? [])];
    if (pasted.length === 0) return;
    event.preventDefault();
    add(pasted);
  };
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        add(event.dataTransfer?.files ?? []);
      }}
    >
      {files.value.length > 0 && (
        <ul class="chosen" aria-label="Attached files">
          {files.value.map((file, index) => (
            <li key={`${file.name}${file.size}`}>
              <Icon name={file.type.startsWith('image/') ? 'camera' : 'artifact'} />
              <span>{file.name}</span>
              <small>{bytes(file.size)}</small>
              <button
                type="button"
                class="plain"
                aria-label={`Remove ${file.name}`}
                onClick={() => {
                  files.value = files.value.filter((_, at) => at !== index);
                }}
              >
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
            add(event.currentTarget.files ?? []);
            event.currentTarget.value = '';
          }}
        />
      </label>
      <label class="hidden" for="say">
        Message
      </label>
      <textarea
        id="say"
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
      <button
        type="submit"
        class="main round"
        aria-label="Send"
        title="Send"
        disabled={isEmpty}
        aria-disabled={isSending.value}
      >
        <Icon name="arrow_up" />
      </button>
    </form>
  );
}

async function upload(file: File): Promise<Parts[number]> {
  const { id } = await rest.post('/api/artifacts', { query: { name: file.name }, body: file });
  return { kind: kindOf(file), media_type: file.type || 'application/octet-stream', artifact: id, name: file.name };
}

function preview(file: File): AttachmentView {
  return { kind: kindOf(file), name: file.name, url: URL.createObjectURL(file) };
}

function kindOf({ type }: File): 'image' | 'audio' | 'file' {
  return type.startsWith('image/') ? 'image' : type.startsWith('audio/') ? 'audio' : 'file';
}
