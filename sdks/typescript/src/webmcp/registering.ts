import type { ToolRegistration } from '../tools/registration.js';
import { runHandler } from '../tools/runner.js';
import { jsonSchema } from '../tools/schema.js';
import { modelContext } from './model-context.js';

const ours = new Set<string>();

/** Whether we registered the page's tool of this name: it is not offered back to us. */
export function isOurs(name: string): boolean {
  return ours.has(name);
}

/**
 * Registers a tool of ours at `document.modelContext` (WebMCP) too, for the agent of the browser itself. Resolves to a
 * function that takes it back; rejects where the browser has no such thing, or has a tool of this name.
 */
export async function registerPageTool(tool: ToolRegistration): Promise<() => void> {
  const control = new AbortController();
  const { name, annotations } = tool;
  const registering = modelContext().registerTool(
    {
      name,
      description: tool.description || name,
      inputSchema: jsonSchema(tool.parameters ?? { type: 'object' }),
      annotations: {
        readOnlyHint: annotations?.read_only === true,
        consequentialHint: annotations?.read_only !== true && annotations?.destructive !== false,
      },
      execute: (input) => run(tool, input, control.signal),
    },
    { signal: control.signal },
  );
  ours.add(name); // before the browser tells that its tools have changed
  try {
    await registering;
  } catch (error) {
    ours.delete(name);
    throw error;
  }
  return () => {
    control.abort();
    ours.delete(name);
  };
}

async function run(tool: ToolRegistration, args: object, signal: AbortSignal): Promise<unknown> {
  const { result, error } = await runHandler({
    tool,
    args,
    context: (ending) => ({ signal: ending, callId: '', node: '', name: tool.name, progress: () => {} }),
    encode: async (value) => value ?? null,
    signal,
    timeout: (tool.timeout ?? 300) * 1000,
  });
  if (error !== undefined) throw error;
  return result;
}
