import { useSignal } from '@preact/signals';
import { Icon } from './icon.tsx';
import { showInvisible } from './invisible.ts';

/** A button that copies a text. */
export function CopyButton({ text, label = 'Copy' }: { text: string | (() => string); label?: string }) {
  const isDone = useSignal(false);
  const copy = async () => {
    await copyText(typeof text === 'string' ? text : text());
    isDone.value = true;
    setTimeout(() => {
      isDone.value = false;
    }, 1500);
  };
  return (
    <button
      type="button"
      class="plain copy"
      title={label}
      aria-label={isDone.value ? 'Copied' : label}
      onClick={() => void copy()}
    >
      <Icon name={isDone.value ? 'check' : 'copy'} />
    </button>
  );
}

/** Copies a text. Pages without https have no clipboard of their own: there it is selected, and copied as by a key. */
async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = document.createElement('textarea');
  field.value = text;
  field.className = 'hidden';
  (document.querySelector('dialog[open]') ?? document.body).append(field);
  const before = document.activeElement;
  field.select();
  document.execCommand('copy');
  field.remove();
  if (before instanceof HTMLElement) before.focus();
}

/** Text as a machine has it, with a button that copies it. */
export function Code({ text, label = 'Copy' }: { text: string; label?: string }) {
  return (
    <div class="code">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a long text scrolls, and a keyboard has to reach it */}
      <pre tabIndex={0}>{text}</pre>
      <CopyButton text={text} label={label} />
    </div>
  );
}

/** A value as JSON for people: a text as it is, anything else indented, with what is invisible in it (ws.md 3.8). */
export function asText(value: unknown): string {
  return typeof value === 'string' ? value : showInvisible(JSON.stringify(value, null, 2) ?? '');
}
