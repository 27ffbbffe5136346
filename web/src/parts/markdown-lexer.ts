import { Lexer, type Links, type Token } from 'marked';

/** So many blocks at the end may still change when more text comes: a list, the space after it, what follows. */
const OPEN = 4;
/** Blocks of one part: parts that are whole stay the same object, and are not looked at again. */
const PART = 48;

/** Blocks of a text, in parts, with the addresses that it names (`[1]: …`). */
export interface Blocks {
  parts: Token[][];
  links: string;
}

/** Reads a text that grows: only its end is read again. A text that is another one is read from its beginning. */
export class GrowingText {
  #text = '';
  #parts: Token[][] = [];
  #last: Token[] = [];
  /** The addresses that all blocks may name. */
  #links = '{}';
  /** Those that stand in blocks which do not change any more. */
  #whole: Links = {};

  read(given: string): Blocks {
    const text = given.includes('\r') ? given.replace(/\r\n?/g, '\n') : given;
    if (text !== this.#text) this.#readEnd(text);
    return { parts: [...this.#parts, this.#last], links: this.#links };
  }

  #readEnd(text: string): void {
    // A text may also lose what is at its end: white space, when it is stored.
    if (!text.startsWith(this.#text.slice(0, this.#text.length - lengthOf(this.#last.slice(-OPEN))))) this.#forget();
    const closed = this.#last.slice(0, -OPEN);
    const open = this.#last.slice(-OPEN);
    const lexer = new Lexer();
    Object.assign(lexer.tokens.links, linksOf(closed), this.#whole);
    const fresh = lexer.lex(text.slice(this.#text.length - lengthOf(open)));
    const links = JSON.stringify(fresh.links);
    if (this.#text && links !== this.#links) {
      this.#forget(); // blocks before may name an address that is new
      this.#readEnd(text);
      return;
    }
    this.#text = text;
    this.#links = links;
    this.#last = [...closed, ...fresh];
    while (this.#last.length > PART + OPEN) {
      const part = this.#last.splice(0, PART);
      this.#whole = { ...linksOf(part), ...this.#whole };
      this.#parts.push(part);
    }
  }

  #forget(): void {
    this.#text = '';
    this.#parts = [];
    this.#last = [];
    this.#links = '{}';
    this.#whole = {};
  }
}

/** The addresses that these blocks give. Of two with one name the first counts. */
function linksOf(tokens: Token[]): Links {
  const links: Links = {};
  for (const token of tokens) {
    if (token.type === 'def') links[token.tag] ??= { href: token.href, title: token.title };
  }
  return links;
}

function lengthOf(tokens: Token[]): number {
  return tokens.reduce((sum, { raw }) => sum + raw.length, 0);
}
