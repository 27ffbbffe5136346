import DOMPurify from 'dompurify';
import { marked, type Token } from 'marked';
import { memo } from 'preact/compat';
import { Code } from '../parts/code.tsx';

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (one) => `&#${one.charCodeAt(0)};`);
}

// HTML that a model writes is shown as it is written.
marked.use({ gfm: true, breaks: true, async: false, renderer: { html: ({ text }) => escapeHtml(text) } });

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

function toHtml(token: Token): string {
  const html = marked.parser([token]);
  return DOMPurify.sanitize(html, {
    USE_PROFILES: { html: true },
    FORBID_TAGS: ['style', 'form', 'input', 'button', 'select', 'textarea', 'video', 'audio', 'iframe'],
    FORBID_ATTR: ['style', 'class', 'id', 'name'],
    ALLOWED_URI_REGEXP: /^(https?:|mailto:|data:image\/|blob:|\/api\/artifacts\/)/i,
  });
}

/** One block of a text: it is made anew only when its source changes, or the addresses that it may name (`[1]: …`). */
const Block = memo(
  function Block({ token }: { token: Token; links: string }) {
    return <div dir="auto" dangerouslySetInnerHTML={{ __html: toHtml(token) }} />;
  },
  (before, after) => before.token.raw === after.token.raw && before.links === after.links,
);

/** Text of a model as Markdown. While it grows, only its last block is made anew. */
export const Markdown = memo(function Markdown({ text }: { text: string }) {
  const tokens = marked.lexer(text);
  const links = JSON.stringify(tokens.links);
  return (
    <div class="markdown">
      {tokens.map((token, index) =>
        token.type === 'space' ? null : token.type === 'code' ? (
          <Code key={index} text={token.text} label="Copy this code" />
        ) : (
          <Block key={index} token={token} links={links} />
        ),
      )}
    </div>
  );
});
