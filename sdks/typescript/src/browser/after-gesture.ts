import { BrowserToolError } from './browser-tool-error.js';
import type { BrowserTool } from './tool.js';

/** Resolves once the person has clicked, as on a button that the page shows for this tool. */
export type AskForGesture = (tool: BrowserTool, signal: AbortSignal | undefined) => Promise<void>;

/**
 * The same tool, which lets the page ask for a click when the browser wants one, and then runs once more. `pick_file`,
 * `contacts` and `share` always need a click; others only in some browsers, or for the first question to the person.
 */
export function afterGesture<Name extends string>(tool: BrowserTool<Name>, ask: AskForGesture): BrowserTool<Name> {
  return {
    ...tool,
    handler: async (args, context) => {
      try {
        return await tool.handler(args, context);
      } catch (error) {
        if (!(error instanceof BrowserToolError) || error.reason !== 'gesture_missing') throw error;
      }
      await ask(tool, context?.signal);
      return tool.handler(args, context);
    },
  };
}
