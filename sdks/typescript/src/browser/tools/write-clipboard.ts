import { clipboardFor } from '../clipboard.js';
import { MOST_CHARACTERS } from '../text.js';
import { type BrowserTool, PERSON_SECONDS } from '../tool.js';

/** Puts a text into the clipboard. */
export const writeClipboard: BrowserTool<'write_clipboard'> = {
  name: 'write_clipboard',
  description: "Put a text into the clipboard of the person's device, in place of what it holds.",
  parameters: {
    type: 'object',
    properties: { text: { type: 'string', description: 'The text to put there', maxLength: MOST_CHARACTERS } },
    required: ['text'],
    additionalProperties: false,
  },
  permissions: ['clipboard-write'],
  timeout: PERSON_SECONDS,
  annotations: { destructive: true, idempotent: true },
  handler: async ({ text }: { text: string }, context) => {
    await clipboardFor('clipboard-write', (clipboard) => clipboard.writeText(text), context?.signal);
    return { written: text.length };
  },
};
