import { needPage } from '../support.js';
import { limitText } from '../text.js';
import { type BrowserTool, NO_ARGUMENTS, READ_ONLY } from '../tool.js';

/** Which page the person looks at. */
export const pageTitle: BrowserTool<'page_title'> = {
  name: 'page_title',
  description: 'Get the title and the address of the page that the person has open.',
  parameters: NO_ARGUMENTS,
  annotations: READ_ONLY,
  handler: async () => {
    needPage('The page');
    const url = `${location.origin}${location.pathname}`; // without what may be a secret: query and fragment
    return { title: limitText(document.title, 1000).text, url: limitText(url, 2000).text };
  },
};
