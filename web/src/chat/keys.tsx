import type { Signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { Dialog } from '../parts/dialog.tsx';

const KEYS: [string, string][] = [
  ['Enter', 'Send the message'],
  ['Shift + Enter', 'Begin a new line'],
  ['/', 'Commands, skills and prompts, at the beginning of a message'],
  ['@', 'Files of the workspace, artifacts, tools'],
  ['↑', 'Edit the last message, in an empty field'],
  ['Escape', 'Close a list; stop the answer, in an empty field'],
  ['Tab', 'From thing to thing; Shift + Tab goes back'],
  ['?', 'These keys'],
];

/** The keys of the chat. */
export function Keys({ isOpen }: { isOpen: Signal<boolean> }) {
  const close = () => {
    isOpen.value = false;
  };
  useEffect(() => {
    const onKeyDown = ({ key, target, ctrlKey, metaKey, altKey }: KeyboardEvent) => {
      const isTyping = target instanceof Element && target.matches('input, textarea, select, [contenteditable]');
      if (key === '?' && !isTyping && !ctrlKey && !metaKey && !altKey) isOpen.value = true;
    };
    document.addEventListener('keydown', onKeyDown);
    return () => document.removeEventListener('keydown', onKeyDown);
  }, [isOpen]);
  return (
    <Dialog title="Keys" isOpen={isOpen.value} onClose={close}>
      <dl class="values keys">
        {KEYS.map(([key, text]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
