import { BrowserToolError } from '../browser-tool-error.js';
import { needPage } from '../support.js';
import { type BrowserTool, READ_ONLY } from '../tool.js';
import { nameOf } from '../waiting.js';

const PREFIX = 'handspan:';
const MOST_KEY = 128;
const MOST_VALUE = 50_000;
const MOST_KEYS = 200;
const KEY = { type: 'string', minLength: 1, maxLength: MOST_KEY };

/** Both tools, for the entries of `localStorage` that begin with a prefix of your own; the page's others stay unseen. */
export function storageTools(prefix: string): {
  storageRead: BrowserTool<'storage_read'>;
  storageWrite: BrowserTool<'storage_write'>;
} {
  return { storageRead: readUnder(prefix), storageWrite: writeUnder(prefix) };
}

function readUnder(prefix: string): BrowserTool<'storage_read'> {
  return {
    name: 'storage_read',
    description: 'Read a note that storage_write kept in this browser, or, without a key, list the keys of all.',
    parameters: {
      type: 'object',
      properties: { key: { ...KEY, description: 'The name of the note; leave it out to list the names' } },
      required: [],
      additionalProperties: false,
    },
    annotations: READ_ONLY,
    handler: async ({ key }: { key?: string }) =>
      key === undefined ? keysOf(storage(), prefix) : { key, value: storage().getItem(prefix + key) },
  };
}

function writeUnder(prefix: string): BrowserTool<'storage_write'> {
  return {
    name: 'storage_write',
    description: 'Keep a note in this browser under a key, in place of what it held; without a value it is removed.',
    parameters: {
      type: 'object',
      properties: {
        key: { ...KEY, description: 'The name of the note' },
        value: { type: 'string', description: 'Its text; leave it out to remove the note', maxLength: MOST_VALUE },
      },
      required: ['key'],
      additionalProperties: false,
    },
    annotations: { destructive: true, idempotent: true },
    handler: async ({ key, value }: { key: string; value?: string }) => {
      if (value === undefined) {
        storage().removeItem(prefix + key);
        return { key, removed: true };
      }
      if (key.length > MOST_KEY || value.length > MOST_VALUE) {
        const bounds = `a key has at most ${MOST_KEY} characters, a value ${MOST_VALUE}`;
        throw new BrowserToolError('invalid', `That is too long to be kept: ${bounds}.`);
      }
      keep(prefix + key, value);
      return { key, written: value.length };
    },
  };
}

function keysOf(kept: Storage, prefix: string): { keys: string[]; truncated?: true } {
  const keys = Object.keys(kept)
    .filter((key) => key.startsWith(prefix))
    .map((key) => key.slice(prefix.length))
    .sort();
  return keys.length > MOST_KEYS ? { keys: keys.slice(0, MOST_KEYS), truncated: true } : { keys };
}

/** Getting at it can fail already: in frames of other sites, or where the person has switched it off. */
function storage(): Storage {
  needPage('The storage of the browser');
  try {
    return window.localStorage;
  } catch (error) {
    const text = 'The browser does not let this page store anything. Go on without it; the person can allow it in the ';
    throw new BrowserToolError('denied', `${text}browser's settings for site data.`, { cause: error });
  }
}

function keep(key: string, value: string): void {
  const kept = storage();
  try {
    kept.setItem(key, value);
  } catch (error) {
    if (nameOf(error) === 'QuotaExceededError') {
      const text =
        'The storage of this page is full: remove notes that are not needed any more (storage_read lists them).';
      throw new BrowserToolError('failed', text, { cause: error });
    }
    throw error;
  }
}

/** Both, under a prefix of ours. */
export const { storageRead, storageWrite } = storageTools(PREFIX);
