import { BrowserToolError } from '../browser-tool-error.js';
import { gestureMissing, needGesture, needSecureContext, unsupportedError } from '../support.js';
import { type BrowserTool, PERSON_SECONDS, READ_ONLY } from '../tool.js';
import { nameOf, untilAborted } from '../waiting.js';

/** https://www.w3.org/TR/contact-picker/, which no browser on a desk has. */
interface ContactPicker {
  select(properties: string[], options: { multiple: boolean }): Promise<PickedContact[]>;
}

interface PickedContact {
  readonly name?: string[];
  readonly tel?: string[];
  readonly email?: string[];
}

const WHAT = 'The contact picker';

/** The contacts that the person picks in the browser's own list. */
export const contacts: BrowserTool<'contacts'> = {
  name: 'contacts',
  description: 'Query phone contacts',
  parameters: { type: 'object', properties: { query: { type: 'string' } }, required: ['query'] },
  permissions: ['contacts'],
  timeout: PERSON_SECONDS,
  annotations: READ_ONLY,
  handler: async ({ query }: { query: string }, context) => {
    needSecureContext(WHAT);
    const picker = (navigator as Navigator & { contacts?: ContactPicker }).contacts;
    if (picker === undefined) {
      throw unsupportedError(WHAT, 'Ask the person for the name, number or address that you need.');
    }
    needGesture(WHAT);
    const picked = await pick(picker, context?.signal);
    return matching(picked, query).map(({ name, tel, email }) => ({
      name: name?.[0] ?? '',
      phone: tel?.[0] ?? null,
      phones: tel ?? [],
      emails: email ?? [],
    }));
  },
};

async function pick(picker: ContactPicker, signal: AbortSignal | undefined): Promise<PickedContact[]> {
  try {
    return await untilAborted(picker.select(['name', 'tel', 'email'], { multiple: true }), signal);
  } catch (error) {
    switch (nameOf(error)) {
      case 'SecurityError':
        throw gestureMissing(WHAT, error);
      case 'InvalidStateError':
        throw new BrowserToolError('not_ready', 'The contact picker is open already: wait for the person.', {
          cause: error,
        });
      default:
        throw error;
    }
  }
}

/** Those that fit; when none does, all: the person's choice counts for more than the spelling. */
function matching(picked: PickedContact[], query: string): PickedContact[] {
  if (picked.length === 0) {
    throw new BrowserToolError('dismissed', 'The person closed the contact picker without choosing anybody.');
  }
  const wanted = query.toLocaleLowerCase();
  const fits = ({ name = [], tel = [], email = [] }: PickedContact): boolean =>
    [...name, ...tel, ...email].some((text) => text.toLocaleLowerCase().includes(wanted));
  const found = picked.filter(fits);
  return found.length > 0 ? found : picked;
}
