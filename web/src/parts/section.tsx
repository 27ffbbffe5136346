import type { ComponentChildren } from 'preact';
import { useId } from 'preact/hooks';
import { Icon, type IconName } from './icon.tsx';

/** A labelled field of a form. The child gets the id of the label, and that of the hint if there is one. */
export function Field(props: {
  label: string;
  hint?: string;
  children: (id: string, hint: string | undefined) => ComponentChildren;
}) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{props.label}</label>
      {props.children(id, props.hint ? `${id}-hint` : undefined)}
      {props.hint && <small id={`${id}-hint`}>{props.hint}</small>}
    </div>
  );
}

/** A part of a page with its heading. */
export function Section(props: {
  title: ComponentChildren;
  side?: ComponentChildren;
  label?: string;
  children: ComponentChildren;
}) {
  const id = useId();
  return (
    <section class="part" aria-labelledby={id}>
      <header>
        <h2 id={id}>{props.title}</h2>
        {props.side}
      </header>
      {props.children}
    </section>
  );
}

/** A choice in the line of filters; the first option stands for all. */
export function Choose(props: {
  label: string;
  value: string;
  options: (string | [value: string, shown: string])[];
  onChange: (value: string) => void;
}) {
  const id = useId();
  return (
    <span class="choose">
      <label for={id}>{props.label}</label>
      <select id={id} value={props.value} onChange={(event) => props.onChange(event.currentTarget.value)}>
        {props.options.map((one) => {
          const [value, shown] = typeof one === 'string' ? [one, one] : one;
          return (
            <option key={value} value={value}>
              {shown}
            </option>
          );
        })}
      </select>
    </span>
  );
}

/** Facts, each with its name; empty ones are left out. */
export function Facts({ facts }: { facts: [name: string, value: ComponentChildren][] }) {
  const known = facts.filter(([, value]) => value !== '');
  return (
    <dl class="facts">
      {known.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** A link back to the list, above the heading of one thing. */
export function Back({ href, children }: { href: string; children: ComponentChildren }) {
  return (
    <div class="back">
      <a href={href}>
        <Icon name="chevron" />
        {children}
      </a>
    </div>
  );
}

/** Links between the parts of one page. */
export function Tabs({ label, tabs }: { label: string; tabs: { href: string; title: string; isHere: boolean }[] }) {
  return (
    <nav class="parts-nav" aria-label={label}>
      {tabs.map(({ href, title, isHere }) => (
        <a key={href} href={href} aria-current={isHere ? 'page' : undefined}>
          {title}
        </a>
      ))}
    </nav>
  );
}

export function IconButton(props: { icon: IconName; label: string; onClick: () => void }) {
  return (
    <button type="button" class="plain" title={props.label} aria-label={props.label} onClick={props.onClick}>
      <Icon name={props.icon} />
    </button>
  );
}

/** The words for where a tool comes from: `mcp(time)` is "MCP server time". */
export function originTitle(origin: string): string {
  const [, kind = origin, name = ''] = /^(\w+)(?:\((.*)\))?$/.exec(origin) ?? [];
  const words: Record<string, string> = {
    builtin: 'Built-in',
    plugin: 'Plugin',
    mcp: 'MCP server',
    device: 'Device',
    remote: 'Program',
    browser: 'Browser page',
  };
  return [words[kind] ?? kind, name].filter(Boolean).join(' ');
}

/** The things by a word that they share, in the order in which the words first appear. */
export function groupBy<Thing>(things: Thing[], wordOf: (thing: Thing) => string): [string, Thing[]][] {
  const found = new Map<string, Thing[]>();
  for (const thing of things) {
    const word = wordOf(thing);
    const group = found.get(word);
    if (group) group.push(thing);
    else found.set(word, [thing]);
  }
  return [...found];
}

const whole = new Intl.NumberFormat('en');

/** A count for people: `12,345`. */
export function count(number: number): string {
  return whole.format(number);
}

/** A number of things in words: `1 tool`, `3 tools`. */
export function plural(number: number, thing: string): string {
  return `${count(number)} ${thing}${number === 1 ? '' : 's'}`;
}
