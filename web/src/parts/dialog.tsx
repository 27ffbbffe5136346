import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';
import { Icon } from './icon.tsx';

interface DialogProps {
  title: string;
  isOpen: boolean;
  onClose: () => void;
  /** `drawer` comes from the edge of a phone's screen. */
  kind?: 'dialog' | 'drawer';
  children: ComponentChildren;
}

/** A dialog over the page. The browser keeps the focus inside, and Escape closes it. */
export function Dialog({ title, isOpen, onClose, kind = 'dialog', children }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useEffect(() => {
    const dialog = element.current;
    if (isOpen && !dialog?.open) dialog?.showModal();
    if (!isOpen && dialog?.open) dialog.close();
  }, [isOpen]);
  const onClick = (event: MouseEvent) => {
    if (event.target === element.current) onClose(); // outside of it
  };
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes it as well
    <dialog ref={element} class={kind} aria-labelledby={heading} onClose={onClose} onClick={onClick}>
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
    </dialog>
  );
}
