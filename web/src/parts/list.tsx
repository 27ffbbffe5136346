import type { ComponentChildren } from 'preact';
import { useId } from 'preact/hooks';
import { Icon } from './icon.tsx';
import { useWanted } from './wanted.ts';

/** The frame of every page but the chat: a heading, what can be done, and the content. */
export function Sheet(props: {
  title: string;
  text?: string;
  actions?: ComponentChildren;
  children: ComponentChildren;
}) {
  return (
    <div class="sheet">
      <header class="sheet-head">
        <h1>{props.title}</h1>
        {props.actions}
        {props.text && <p class="muted">{props.text}</p>}
      </header>
      {props.children}
    </div>
  );
}

/** A list of rows. */
export function List({ label, children }: { label: string; children: ComponentChildren }) {
  return (
    <ul class="list" aria-label={label}>
      {children}
    </ul>
  );
}

interface RowProps {
  title: ComponentChildren;
  text?: ComponentChildren;
  /** At the right: a state, a time. */
  side?: ComponentChildren;
  /** Buttons and switches at the end. */
  actions?: ComponentChildren;
  href?: string;
  onOpen?: () => void;
}

/** One row of a list; with `href` or `onOpen` its text can be clicked. */
export function Row({ title, text, side, actions, href, onOpen }: RowProps) {
  const inside = (
    <>
      <span class="row-title">{title}</span>
      {text && <span class="row-text">{text}</span>}
    </>
  );
  return (
    <li class="row">
      {href ? (
        <a class="row-main" href={href}>
          {inside}
        </a>
      ) : onOpen ? (
        <button type="button" class="row-main" onClick={onOpen}>
          {inside}
        </button>
      ) : (
        <div class="row-main">{inside}</div>
      )}
      {side && <span class="row-side">{side}</span>}
      {actions && <span class="row-actions">{actions}</span>}
    </li>
  );
}

interface SwitchProps {
  label: string;
  isOn: boolean;
  /** Until its promise is kept, the switch shows what the person wants: it has to end when the list shows it too. */
  onChange: (isOn: boolean) => unknown;
  isDisabled?: boolean;
}

/** A switch with its name for a screen reader. */
export function Switch(props: SwitchProps) {
  const [isOn, turn] = useWanted(props.isOn, props.onChange);
  return (
    <label class="switch" title={props.label}>
      <input
        type="checkbox"
        role="switch"
        aria-label={props.label}
        aria-checked={isOn}
        checked={isOn}
        disabled={props.isDisabled ?? false}
        onChange={(event) => turn(event.currentTarget.checked)}
      />
      <span />
    </label>
  );
}

/** A field to search in a list. */
export function Search(props: { label: string; value: string; onInput: (text: string) => void }) {
  const id = useId();
  return (
    <div class="search">
      <label for={id} class="hidden">
        {props.label}
      </label>
      <Icon name="search" />
      <input
        id={id}
        type="search"
        placeholder={props.label}
        value={props.value}
        onInput={(event) => props.onInput(event.currentTarget.value)}
      />
    </div>
  );
}

/** A short word with a meaning: `good`, `bad`, `waits`, or none. */
export function Badge({ kind = '', children }: { kind?: '' | 'good' | 'bad' | 'waits'; children: ComponentChildren }) {
  return <span class={`badge ${kind}`}>{children}</span>;
}
