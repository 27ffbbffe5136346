import { needPage } from '../support.js';
import { type BrowserTool, NO_ARGUMENTS, READ_ONLY } from '../tool.js';

/** The person's languages and time zone. */
export const getBrowserLocale: BrowserTool<'get_browser_locale'> = {
  name: 'get_browser_locale',
  description: "Get the browser's locale, the person's preferred languages in order, and the time zone.",
  parameters: NO_ARGUMENTS,
  annotations: READ_ONLY,
  handler: async () => {
    needPage('The locale');
    return {
      locale: navigator.language,
      languages: [...navigator.languages],
      time_zone: Intl.DateTimeFormat().resolvedOptions().timeZone,
    };
  },
};
