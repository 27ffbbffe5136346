import type { ComponentChildren } from 'preact';
import { Icon, type IconName } from './icon.tsx';

/** What stands where there is nothing yet: what it is for, and the first step. */
export function Empty(props: { icon: IconName; title: string; text?: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <Icon name={props.icon} />
      <h2>{props.title}</h2>
      {props.text && <p>{props.text}</p>}
      {props.children}
    </div>
  );
}

/** The line above a list that could not be read. */
export function Problem({ text }: { text: string }) {
  return text ? (
    <p class="problem" role="alert">
      <Icon name="alert" />
      {text}
    </p>
  ) : null;
}
