import type { TokenizerAndRendererExtension } from 'marked';
import { showInvisible } from './invisible.ts';

// Formulas: `$$…$$` and `\[…\]` as blocks, `\(…\)` and `$…$` in a line. A price is no formula: `$` opens one only before a
// character that is no space, and closes one only after such a character and before no digit.
const BLOCK = /^(?:\$\$([\s\S]+?)\$\$|\\\[([\s\S]+?)\\\])[ \t]*(?:\n|$)/;
const INLINE = /^(?:\$\$([^$\n]+?)\$\$|\$(?!\s)((?:\\.|[^$\\\n])+?)(?<![\s\\])\$(?!\d)|\\\((.+?)\\\))/;

function html(tex: string, isBlock: boolean): string {
  const text = showInvisible(tex).replace(/[&<>"']/g, (one) => `&#${one.charCodeAt(0)};`);
  return `<code data-math="${isBlock ? 'block' : 'inline'}">${text}</code>`;
}

function extension(name: string, level: 'block' | 'inline', rule: RegExp): TokenizerAndRendererExtension {
  return {
    name,
    level,
    start: (src) => {
      const found = src.search(level === 'block' ? /\$\$|\\\[/ : /\$|\\\(/);
      return found < 0 ? undefined : found;
    },
    tokenizer(src) {
      const [raw, ...groups] = rule.exec(src) ?? [];
      const tex = groups.find((one) => one !== undefined)?.trim();
      return raw && tex ? { type: name, raw, text: tex } : undefined;
    },
    renderer: ({ text }) => (level === 'block' ? `<p>${html(text, true)}</p>` : html(text, false)),
  };
}

/** What the Markdown reader has to know of formulas. They are drawn later, by `drawMath`. */
export const MATH = [extension('math', 'block', BLOCK), extension('inlineMath', 'inline', INLINE)];

/** Draws the formulas in this element. What draws them is loaded when the first one is met. */
export async function drawMath(element: HTMLElement): Promise<void> {
  const { default: katex } = await import('katex');
  for (const code of element.querySelectorAll<HTMLElement>('code[data-math]')) {
    const drawn = document.createElement('span');
    const displayMode = code.dataset.math === 'block';
    drawn.className = displayMode ? 'math block' : 'math';
    katex.render(code.textContent ?? '', drawn, {
      displayMode,
      output: 'mathml', // browsers draw it themselves: no fonts to load, no styles that the page's policy forbids
      throwOnError: false,
      trust: false,
      maxExpand: 100,
    });
    code.replaceWith(drawn);
  }
}
