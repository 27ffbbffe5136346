import { clipboardFor } from '../clipboard.js';
import { limitText } from '../text.js';
import { type BrowserTool, NO_ARGUMENTS, PERSON_SECONDS, READ_ONLY } from '../tool.js';

/** The text in the clipboard. */
export const readClipboard: BrowserTool<'read_clipboard'> = {
  name: 'read_clipboard',
  description: "Read the text in the clipboard of the person's device; a long text comes cut.",
  parameters: NO_ARGUMENTS,
  permissions: ['clipboard-read'],
  timeout: PERSON_SECONDS,
  annotations: READ_ONLY,
  handler: async (_args, context) =>
    limitText(await clipboardFor('clipboard-read', (clipboard) => clipboard.readText(), context?.signal)),
};
