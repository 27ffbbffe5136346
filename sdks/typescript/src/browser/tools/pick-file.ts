import { BrowserToolError } from '../browser-tool-error.js';
import { needGesture } from '../support.js';
import { type BrowserTool, READ_ONLY } from '../tool.js';
import { untilAborted } from '../waiting.js';

/** In base64 it has to fit into one request to the gateway, beside what other tools answer. */
const MOST_MEGABYTES = 6;
const WHAT = "The browser's file picker";

/** The file that the person chooses. */
export const pickFile: BrowserTool<'pick_file'> = {
  name: 'pick_file',
  description: `Let the person choose one file of their device, and get it. At most ${MOST_MEGABYTES} MB.`,
  parameters: {
    type: 'object',
    properties: {
      accept: {
        type: 'string',
        description: 'Which files to offer: endings or media types with commas, such as ".pdf,image/*". Default: all',
        maxLength: 200,
      },
    },
    required: [],
    additionalProperties: false,
  },
  timeout: 300,
  annotations: READ_ONLY,
  handler: async ({ accept = '' }: { accept?: string }, context) => {
    needGesture(WHAT);
    const file = await untilAborted(askForFile(accept), context?.signal);
    if (file.size > MOST_MEGABYTES * 1_000_000) {
      const size = (file.size / 1_000_000).toFixed(1);
      const text = `The file '${file.name}' has ${size} MB, and at most ${MOST_MEGABYTES} MB can be sent.`;
      throw new BrowserToolError('failed', `${text} Ask the person for a smaller one.`);
    }
    return file;
  },
};

function askForFile(accept: string): Promise<File> {
  const input = document.createElement('input');
  input.type = 'file';
  input.accept = accept;
  return new Promise((resolve, reject) => {
    const nothing = (): void =>
      reject(new BrowserToolError('dismissed', 'The person closed the file picker without choosing a file.'));
    input.onchange = () => (input.files?.[0] ? resolve(input.files[0]) : nothing());
    input.oncancel = nothing;
    input.click();
  });
}
