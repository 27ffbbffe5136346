import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useId, useLayoutEffect, useRef } from 'preact/hooks';
import { Icon } from './icon.tsx';
import { Toasts } from './toast.tsx';

/** The headings of the open dialogs, the topmost last. */
export const openDialogs = signal<string[]>([]);

interface DialogProps {
  title: string;
  isOpen: boolean;
  onClose: () => void;
  /** `drawer` comes from the edge of a phone's screen; `wide` has room for a picture. */
  kind?: 'dialog' | 'drawer' | 'wide';
  children: ComponentChildren;
}

/** A dialog over the page. The browser keeps the focus inside, Escape closes it, and the focus goes back to where it was. */
export function Dialog({ title, isOpen, onClose, kind = 'dialog', children }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const heading = useId();
  // Before the browser does anything else: the event that it was closed, of what it showed before, must find it open.
  useLayoutEffect(() => {
    const dialog = element.current;
    if (isOpen && !dialog?.open) dialog?.showModal();
    if (!isOpen && dialog?.open) dialog.close();
    if (!isOpen) return;
    openDialogs.value = [...openDialogs.value, heading];
    return () => {
      openDialogs.value = openDialogs.value.filter((one) => one !== heading);
    };
  }, [isOpen]);
  const onClick = (event: MouseEvent) => {
    if (event.target === element.current) onClose(); // outside of it
  };
  // Escape closes it by its state, as everything else does: the next key may open it again.
  const onCancel = (event: Event) => {
    if (event.target !== element.current) return; // a file was not chosen
    event.preventDefault();
    onClose();
  };
  // The event comes late: the dialog may be open again with something else.
  const onClosed = () => {
    restoreCaret();
    if (isOpen && !element.current?.open) onClose();
  };
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes it as well
    <dialog
      ref={element}
      class={kind}
      aria-labelledby={heading}
      onCancel={onCancel}
      onClose={onClosed}
      onClick={onClick}
    >
      {isOpen && (
        <div class="dialog-body">
          <header>
            <h2 id={heading}>{title}</h2>
            <button type="button" class="plain" aria-label="Close" onClick={onClose}>
              <Icon name="close" />
            </button>
          </header>
          {children}
        </div>
      )}
      {openDialogs.value.at(-1) === heading && <Toasts />}
    </dialog>
  );
}

/** Chromium gives the focus back to a field, but not the caret if a field of the dialog had it: keys would go nowhere. */
function restoreCaret(): void {
  const field = document.activeElement;
  const isText = field instanceof HTMLTextAreaElement || field instanceof HTMLInputElement;
  if (isText && field.selectionStart !== null) field.setSelectionRange(field.selectionStart, field.selectionEnd);
}
