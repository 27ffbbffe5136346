import DOMPurify from 'dompurify';
import { marked, type Token } from 'marked';
import { memo } from 'preact/compat';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { CodeBlock } from './code-block.tsx';
import { GrowingText } from './markdown-lexer.ts';
import { drawMath, MATH } from './math.ts';

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (one) => `&#${one.charCodeAt(0)};`);
}

marked.use({
  gfm: true,
  breaks: true,
  async: false,
  extensions: MATH,
  renderer: {
    html: ({ text }) => escapeHtml(text), // HTML that a model writes is shown as it is written
    checkbox: ({ checked }) =>
      `<span role="img" data-task aria-label="${checked ? 'done' : 'not done'}">${checked ? '☑' : '☐'}</span> `,
  },
});

// What a model writes is data (SPEC S4): no script, no form, no style, no address but http, https and mailto. An image of
// another server would tell that server what is read here, so it becomes a link.
DOMPurify.addHook('afterSanitizeAttributes', (node) => {
  if (node.tagName === 'A') {
    node.setAttribute('target', '_blank');
    node.setAttribute('rel', 'noopener noreferrer');
  }
  if (node.tagName === 'IMG' && !/^(data:|blob:|\/api\/artifacts\/)/.test(node.getAttribute('src') ?? '')) {
    const link = document.createElement('a');
    link.href = node.getAttribute('src') ?? '';
    link.textContent = node.getAttribute('alt') || link.href;
    link.target = '_blank';
    link.rel = 'noopener noreferrer';
    node.replaceWith(link);
  }
});

// Once for all blocks: to read the rules anew takes longer than to apply them.
DOMPurify.setConfig({
  USE_PROFILES: { html: true },
  FORBID_TAGS: ['style', 'form', 'input', 'button', 'select', 'textarea', 'video', 'audio', 'iframe'],
  FORBID_ATTR: ['style', 'class', 'id', 'name'],
  ADD_URI_SAFE_ATTR: ['align', 'start'],
  ALLOWED_URI_REGEXP: /^(https?:|mailto:|data:image\/|blob:|\/api\/artifacts\/)/i,
});

function toHtml(token: Token): string {
  return DOMPurify.sanitize(marked.parser([token]));
}

/** One block of a text: it is made anew only when its source changes, or the addresses that it may name (`[1]: …`). */
const Block = memo(
  function Block({ token }: { token: Token; links: string }) {
    const element = useRef<HTMLDivElement>(null);
    const html = toHtml(token);
    useLayoutEffect(() => {
      if (element.current && html.includes('data-math')) void drawMath(element.current);
    }, [html]);
    // A wide table scrolls in its own place, and a keyboard has to reach it.
    const scrolls = token.type === 'table' ? { class: 'markdown-table', tabIndex: 0 } : {};
    return <div dir="auto" {...scrolls} ref={element} dangerouslySetInnerHTML={{ __html: html }} />;
  },
  (before, after) => before.token.raw === after.token.raw && before.links === after.links,
);

/** Blocks one after the other. A part that is whole is the same array for ever. */
const Part = memo(function Part({ tokens, links }: { tokens: Token[]; links: string }) {
  return (
    <div class="markdown-part">
      {tokens.map((token, index) =>
        token.type === 'space' || token.type === 'def' ? null : token.type === 'code' ? (
          <CodeBlock key={index} text={token.text} language={token.lang ?? ''} />
        ) : (
          <Block key={index} token={token} links={links} />
        ),
      )}
    </div>
  );
});

/** So many characters of a text are shown at first, and at least and at most so many more in each frame. */
const FIRST = 6_000;
const LEAST = 500;
const MOST = 30_000;
/** Milliseconds that a frame may take of it, before the browser lays it out. */
const BUDGET = 8;

/** Text of a model as Markdown. While it grows, only its last blocks are made anew; a long one comes in pieces. */
export const Markdown = memo(function Markdown({ text }: { text: string }) {
  const growing = useRef(new GrowingText());
  const [most, setMost] = useState(FIRST);
  const step = useRef(LEAST * 4);
  const began = performance.now();
  const isLong = text.length > most;
  useLayoutEffect(() => {
    if (!isLong) return;
    // A machine that is fast is given more of it in the next frame.
    const took = performance.now() - began;
    const more = Math.round(step.current * Math.min(1.5, BUDGET / Math.max(1, took)));
    step.current = Math.min(MOST, Math.max(LEAST, more));
    const frame = requestAnimationFrame(() => setMost(most + step.current));
    return () => cancelAnimationFrame(frame);
  }, [isLong, most]);
  const { parts, links } = growing.current.read(isLong ? text.slice(0, most) : text);
  return (
    <div class="markdown">
      {parts.map((tokens, index) => (
        <Part key={index} tokens={tokens} links={links} />
      ))}
    </div>
  );
});
