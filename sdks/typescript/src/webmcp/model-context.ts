/** What of `document.modelContext` this adapter uses: a draft of the W3C, which browsers change between versions. */
export interface ModelContext extends EventTarget {
  registerTool(tool: PageTool, options?: { readonly signal?: AbortSignal }): Promise<void>;
  getTools(): Promise<readonly RegisteredTool[]>;
  executeTool?(tool: RegisteredTool, input: object, options?: { readonly signal?: AbortSignal }): Promise<unknown>;
}

/** What a browser is told that a tool does. */
interface Hints {
  readonly readOnlyHint?: boolean;
  readonly consequentialHint?: boolean;
}

/** A tool as a page registers it. */
interface PageTool {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: object;
  readonly annotations: Hints;
  readonly execute: (input: object) => Promise<unknown>;
}

/** A tool as the browser lists it. */
export interface RegisteredTool {
  readonly name: string;
  readonly description: string;
  /** Missing without arguments; a string of JSON in some versions. */
  readonly inputSchema?: object | string;
  readonly annotations?: Hints;
}

/** The tools of this page. Throws where the browser has none. */
export function modelContext(): ModelContext {
  const found = (globalThis.document as unknown as { modelContext?: ModelContext } | undefined)?.modelContext;
  if (!found?.executeTool) {
    throw new TypeError(
      'This browser has no document.modelContext (WebMCP): switch it on in the browser, or load a polyfill first.',
    );
  }
  return found;
}
