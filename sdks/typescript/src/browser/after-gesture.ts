import { hasGesture } from './support.js';
import type { BrowserTool } from './tool.js';

/** Resolves once the person has clicked, as on a button that the page shows for this tool. */
export type AskForGesture = (tool: BrowserTool, signal: AbortSignal | undefined) => Promise<void>;

/** The same tool, which lets the page ask for a click before it needs one: for `pick_file`, `contacts` and `share`. */
export function afterGesture<Name extends string>(tool: BrowserTool<Name>, ask: AskForGesture): BrowserTool<Name> {
  return {
    ...tool,
    handler: async (args, context) => {
      if (!hasGesture()) {
        await ask(tool, context?.signal);
      }
      return tool.handler(args, context);
    },
  };
}
