import { BrowserToolError } from '../browser-tool-error.js';
import { gestureMissing, needPage, unsupportedError } from '../support.js';
import type { BrowserTool } from '../tool.js';

const MOST_MILLISECONDS = 2000;
const MOST_ENTRIES = 10;

/** Lets the device vibrate. */
export const vibrate: BrowserTool<'vibrate'> = {
  name: 'vibrate',
  description: 'Let the device vibrate in a pattern of milliseconds: on, off, on, and so forth.',
  parameters: {
    type: 'object',
    properties: {
      pattern: {
        type: 'array',
        description: 'Milliseconds, by turns of vibrating and of silence, such as [200, 100, 200]. Default [200]',
        items: { type: 'integer', minimum: 0, maximum: MOST_MILLISECONDS },
        minItems: 1,
        maxItems: MOST_ENTRIES,
      },
    },
    required: [],
    additionalProperties: false,
  },
  annotations: { read_only: false, destructive: false, idempotent: true },
  handler: async ({ pattern = [200] }: { pattern?: number[] }) => {
    needPage('Vibrating');
    if (typeof navigator.vibrate !== 'function') {
      throw unsupportedError('Vibrating', 'Tell the person in the conversation.');
    }
    if (pattern.length > MOST_ENTRIES || pattern.some((each) => !(each >= 0 && each <= MOST_MILLISECONDS))) {
      const bounds = `at most ${MOST_ENTRIES} numbers from 0 to ${MOST_MILLISECONDS}`;
      throw new BrowserToolError('invalid', `The pattern is too long: give ${bounds}.`);
    }
    if (!navigator.vibrate(pattern)) {
      throw gestureMissing('The motor of the device');
    }
    return { vibrating: true };
  },
};
