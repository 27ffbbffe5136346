import { needPage } from '../support.js';
import { limitText } from '../text.js';
import { type BrowserTool, NO_ARGUMENTS, READ_ONLY } from '../tool.js';

/** The text that the person has marked. */
export const pageSelection: BrowserTool<'page_selection'> = {
  name: 'page_selection',
  description: 'Get the text that the person has marked in the page; it is empty when nothing is marked.',
  parameters: NO_ARGUMENTS,
  annotations: READ_ONLY,
  handler: async () => {
    needPage('The selection');
    return limitText(selectedInField() ?? String(document.getSelection() ?? ''));
  },
};

/** What is marked in a field that has the focus: the page's own selection does not have it. */
function selectedInField(): string | undefined {
  const field = document.activeElement;
  const isText =
    field instanceof HTMLTextAreaElement || (field instanceof HTMLInputElement && field.type !== 'password');
  if (!isText || field.selectionStart === null || field.selectionEnd === null) {
    return undefined;
  }
  return field.value.slice(field.selectionStart, field.selectionEnd) || undefined;
}
