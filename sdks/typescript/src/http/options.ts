/** How the gateway is reached. */
export interface ConnectionOptions {
  /** The gateway's address with its path prefix; '' in a page that the gateway itself serves. */
  readonly baseUrl: string;
  /** A token of the scope `chat`; without one the page's cookie has to do. */
  readonly token?: string | undefined;
  /** The same under the name that AgentFlow's client has for it. */
  readonly authToken?: string | undefined;
  /** More headers for every request. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Of `fetch`; by default the cookie goes to the page's own origin alone. */
  readonly credentials?: 'include' | 'omit' | 'same-origin' | undefined;
  /** Milliseconds of silence after which a request is given up; 300000 when it is missing. */
  readonly timeout?: number | undefined;
  /** In place of the platform's. */
  readonly fetch?: typeof fetch | undefined;
  /** True: log every request to the console; or a function that gets every request. */
  readonly debug?: boolean | ((text: string) => void) | undefined;
}

/** One request. */
export interface Call {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** JSON, a form with files, or one file. */
  readonly body?: unknown;
  readonly query?: object | undefined;
  readonly headers?: Record<string, string>;
  readonly signal?: AbortSignal | undefined;
}

/** Every success. graph.md 1.1 */
export interface Envelope<Data> {
  data: Data;
  metadata: { request_id: string; timestamp: string; message: string };
}
