import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { Icon, type IconName } from './icon.tsx';

/** A button that opens a few things to do. It closes by Escape, by a click elsewhere, and when one is chosen. */
export function Menu({ label, children }: { label: string; children: ComponentChildren }) {
  const menu = useRef<HTMLDetailsElement>(null);
  /** The focus stays at the menu: a dialog that opens now gives it back there. */
  const close = () => {
    menu.current?.querySelector('summary')?.focus();
    menu.current?.removeAttribute('open');
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== 'Escape' || !menu.current?.open) return;
    event.preventDefault(); // a dialog around it stays
    close();
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
  return (
    <details class="menu" ref={menu} onKeyDown={onKeyDown}>
      <summary class="plain" aria-label={label} title={label}>
        <Icon name="more" />
      </summary>
      <div class="menu-items" onClickCapture={close}>
        {children}
      </div>
    </details>
  );
}

interface ItemProps {
  icon: IconName;
  isDanger?: boolean;
  onClick: () => void;
  children: ComponentChildren;
}

/** One thing to do. */
export function MenuItem({ icon, isDanger = false, onClick, children }: ItemProps) {
  return (
    <button type="button" class={isDanger ? 'danger' : ''} onClick={onClick}>
      <Icon name={icon} /> {children}
    </button>
  );
}
