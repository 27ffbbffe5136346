import type { ToolAnnotations } from '../tools/registration.js';
import { modelContext, type RegisteredTool } from './model-context.js';
import { isOurs } from './registering.js';

/** What takes the tools of a page: a `Device`, or a `HandspanClient` for its own runs. */
export interface TakesTools {
  registerTool(tool: OfferedPageTool): unknown;
  unregister?(name: string): boolean;
  unregisterTool?(name: string): boolean;
}

/** A tool of a page, as it is offered to the gateway. */
export interface OfferedPageTool {
  readonly name: string;
  readonly description: string;
  readonly parameters: object;
  readonly annotations?: ToolAnnotations;
  readonly handler: (args: object, context: { readonly signal: AbortSignal }) => Promise<unknown>;
}

/**
 * Offers what this page registers at `document.modelContext` (WebMCP), now and later. Resolves to a function that takes
 * all of it back; rejects where the browser has no such thing.
 */
export async function offerPageTools(to: TakesTools): Promise<() => void> {
  const context = modelContext();
  const offered = new Map<string, string>();
  let isOver = false;
  let last = Promise.resolve();

  const remove = (name: string): void => {
    offered.delete(name);
    (to.unregister ?? to.unregisterTool)?.call(to, name);
  };
  const update = async (): Promise<void> => {
    const tools = (await context.getTools()).filter(({ name }) => !isOurs(name));
    if (isOver) return;
    const names = new Set(tools.map(({ name }) => name));
    for (const name of offered.keys()) if (!names.has(name)) remove(name);
    for (const tool of tools) {
      const described = JSON.stringify([tool.description, tool.inputSchema, tool.annotations]);
      if (offered.get(tool.name) === described) continue;
      offered.set(tool.name, described);
      to.registerTool(offerOf(tool));
    }
  };
  /** One look after the other: an older list never replaces a newer one. */
  const onChange = (): void => {
    last = last.then(update).catch(() => {}); // a page that goes away has no tools to list
  };
  context.addEventListener('toolchange', onChange);
  await update();
  return () => {
    isOver = true;
    context.removeEventListener('toolchange', onChange);
    for (const name of offered.keys()) remove(name);
  };
}

function offerOf(tool: RegisteredTool): OfferedPageTool {
  const { name, description, inputSchema: schema = { type: 'object' }, annotations } = tool;
  return {
    name,
    description,
    parameters: typeof schema === 'string' ? JSON.parse(schema || '{}') : schema,
    ...mapHints(annotations),
    handler: (args, { signal }) => execute(name, args, signal),
  };
}

/** What the hints say in our words. A tool without any counts as destructive, as every tool from outside. */
function mapHints(hints: RegisteredTool['annotations']): { annotations?: ToolAnnotations } {
  if (hints?.consequentialHint) return { annotations: { destructive: true } };
  return hints?.readOnlyHint ? { annotations: { read_only: true } } : {};
}

/** Runs the tool that has this name now: the page may have registered another one meanwhile. */
async function execute(name: string, args: object, signal: AbortSignal): Promise<unknown> {
  const context = modelContext();
  const tool = (await context.getTools()).find((one) => one.name === name);
  if (tool === undefined) throw new Error(`The page has taken its tool '${name}' back.`);
  return readAnswer(await context.executeTool?.(tool, asInput(args), { signal }));
}

/** The arguments for every version of the draft: the newer ones take an object, the older ones its JSON. */
function asInput(args: object): object {
  return Object.defineProperty({ ...args }, 'toString', { value: () => JSON.stringify(args) });
}

/** What a tool answered. The browser gives it as text; texts in MCP's form are taken out of it. */
function readAnswer(answer: unknown): unknown {
  let value = answer;
  try {
    value = typeof answer === 'string' ? JSON.parse(answer) : answer;
  } catch {
    return answer; // a text that is no JSON
  }
  const { content, isError } = (value ?? {}) as { content?: unknown; isError?: unknown };
  if (!Array.isArray(content) || !content.every((part) => part?.type === 'text')) return value;
  const text = content.map((part: { text: string }) => part.text).join('\n');
  if (isError) throw new Error(text);
  return text;
}
