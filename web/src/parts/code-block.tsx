import { useSignal } from '@preact/signals';
import type { JSX } from 'preact';
import { useEffect } from 'preact/hooks';
import { CopyButton } from './code.tsx';
import { Icon } from './icon.tsx';

/** Longer code is shown without colours: to find them would hold the page up. */
const LONGEST = 60_000;
/** Longer code is drawn in parts of so many characters: the parts that are whole are not laid out again. */
const PART = 4_000;
/** Milliseconds without a change, after which code that arrives gets its colours. */
const PAUSE = 120;

/** Code with its language, colours where the language is known, and buttons that copy and wrap it. */
export function CodeBlock({ text, language }: { text: string; language: string }) {
  const name = /^[\w#+.-]+/.exec(language)?.[0] ?? '';
  const coloured = useSignal<{ text: string; html: string } | undefined>(undefined);
  const wraps = useSignal(false);
  useEffect(() => {
    if (!name || text.length > LONGEST) return;
    let isHere = true;
    const timer = setTimeout(async () => {
      const { highlight } = await import('./highlight.ts');
      const html = highlight(text, name.toLowerCase());
      if (isHere && html !== undefined) coloured.value = { text, html };
    }, PAUSE);
    return () => {
      isHere = false;
      clearTimeout(timer);
    };
  }, [text, name, coloured]);
  const label = name ? `Code, ${name}` : 'Code';
  const html = coloured.value?.text === text ? coloured.value.html : undefined;
  return (
    <figure class={wraps.value ? 'code code-block wraps' : 'code code-block'} dir="ltr" aria-label={label}>
      <figcaption>
        <span>{name}</span>
        <button
          type="button"
          class="plain"
          aria-pressed={wraps.value}
          title="Wrap long lines"
          aria-label="Wrap long lines"
          onClick={() => {
            wraps.value = !wraps.value;
          }}
        >
          <Icon name="wrap" />
        </button>
        <CopyButton text={text} label="Copy this code" />
      </figcaption>
      {html === undefined ? (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a long text scrolls, and a keyboard has to reach it
        <pre tabIndex={0}>{text.length > PART ? partsOf(text) : text}</pre>
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a long text scrolls, and a keyboard has to reach it
        <pre tabIndex={0} dangerouslySetInnerHTML={{ __html: html }} />
      )}
    </figure>
  );
}

/** Code in parts that end with a line. While it grows only the last one changes. */
function partsOf(text: string): JSX.Element[] {
  const parts: JSX.Element[] = [];
  for (let from = 0; from < text.length; ) {
    const end = text.indexOf('\n', from + PART) + 1 || text.length;
    parts.push(<span key={from}>{text.slice(from, end)}</span>);
    from = end;
  }
  return parts;
}
