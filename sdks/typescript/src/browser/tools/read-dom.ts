import { BrowserToolError } from '../browser-tool-error.js';
import { needPage } from '../support.js';
import { limitText, MOST_CHARACTERS } from '../text.js';
import { type BrowserTool, READ_ONLY } from '../tool.js';

interface ReadDomArguments {
  readonly selector: string;
  readonly what?: 'text' | 'html' | 'attributes';
  readonly limit?: number;
}

type Read = Record<string, unknown> & { readonly tag: string };

const MOST_ELEMENTS = 100;
const SECRET_FIELDS = 'input[type=password i], input[type=hidden i]';

/** What stands in the page where a CSS selector points. */
export const readDom: BrowserTool<'read_dom'> = {
  name: 'read_dom',
  description: 'Read the elements of the open page that a CSS selector finds: their text, HTML or attributes.',
  parameters: {
    type: 'object',
    properties: {
      selector: { type: 'string', description: 'A CSS selector, such as "main h2"', minLength: 1, maxLength: 500 },
      what: {
        type: 'string',
        description: 'What to read of each element. Default "text"',
        enum: ['text', 'html', 'attributes'],
      },
      limit: {
        type: 'integer',
        description: 'How many elements to read at most. Default 20',
        minimum: 1,
        maximum: MOST_ELEMENTS,
      },
    },
    required: ['selector'],
    additionalProperties: false,
  },
  annotations: READ_ONLY,
  handler: async ({ selector, what = 'text', limit = 20 }: ReadDomArguments) => {
    needPage('The page');
    const found = find(selector);
    const elements = readUpTo(found.slice(0, Math.min(limit, MOST_ELEMENTS)), what);
    return { count: found.length, elements, ...(elements.length < found.length && { truncated: true }) };
  },
};

function find(selector: string): Element[] {
  try {
    return [...document.querySelectorAll(selector)];
  } catch (error) {
    throw new BrowserToolError('invalid', `'${selector}' is not a CSS selector that the browser understands.`, {
      cause: error,
    });
  }
}

/** All of these elements, or as many as fit into one answer; the last one may be cut. */
function readUpTo(found: Element[], what: 'text' | 'html' | 'attributes'): Read[] {
  const read: Read[] = [];
  let left = MOST_CHARACTERS;
  for (const element of found) {
    if (left <= 0) {
      break;
    }
    const [one, size] = READERS[what](element, left);
    read.push({ tag: element.localName, ...one });
    left -= size;
  }
  return read;
}

type Reader = (element: Element, most: number) => [Record<string, unknown>, number];

const READERS: Record<'text' | 'html' | 'attributes', Reader> = {
  text: (element, most) => {
    const found = limitText(textOf(element), most);
    return [found, found.text.length];
  },
  html: (element, most) => {
    const { text: html, ...cut } = limitText(withoutSecrets(element).outerHTML, most);
    return [{ html, ...cut }, html.length];
  },
  attributes: (element, most) => {
    const attributes: Record<string, string> = {};
    let size = 0;
    for (const { name, value } of withoutSecrets(element, false).attributes) {
      const kept = limitText(value, Math.max(most - size, 0)).text;
      attributes[name] = kept;
      size += name.length + kept.length;
    }
    return [{ attributes }, size];
  },
};

/** As the person sees it, where the browser can tell. */
function textOf(element: Element): string {
  // biome-ignore lint/performance/useDomNodeTextContent: text that is not visible, such as scripts, is left out
  return (element instanceof HTMLElement ? element.innerText : element.textContent) ?? '';
}

/** A copy in which fields for passwords, and those that are hidden, have no value. */
function withoutSecrets(element: Element, deep = true): Element {
  const copy = element.cloneNode(deep) as Element;
  for (const field of [copy, ...copy.querySelectorAll(SECRET_FIELDS)]) {
    if (field.matches(SECRET_FIELDS)) {
      field.removeAttribute('value');
    }
  }
  return copy;
}
