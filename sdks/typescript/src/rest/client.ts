import { Connection } from '../http/connection.js';
import type { ConnectionOptions } from '../http/options.js';
import { type LiveUpdate, liveUpdates } from './live.js';
import type { Operations } from './types.js';

/** A method and a path of REST, as the OpenAPI document has them: `'GET /api/tools'`. */
export type Route = keyof Operations;
type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** The paths that a method knows. */
export type PathOf<M extends Method> = Route extends infer R ? (R extends `${M} ${infer P}` ? P : never) : never;
type At<M extends Method, P extends string> = `${M} ${P}` extends Route ? Operations[`${M} ${P}`] : never;

/** What a route answers. */
export type Answered<R extends Route> = Operations[R]['answer'];

/** What a request of a route has; fields that the route does not know are left out. */
export type Given<Shape extends { path: unknown; query: unknown; body: unknown }> = {
  [Part in 'path' | 'query' | 'body' as Shape[Part] extends undefined ? never : Part]: Shape[Part];
} & { signal?: AbortSignal | undefined };
type Arguments<Shape extends { path: unknown; query: unknown; body: unknown }> =
  Partial<Given<Shape>> extends Given<Shape>
    ? [given?: Given<Shape>]
    : Shape['path'] extends undefined
      ? Shape['body'] extends undefined
        ? [given?: Partial<Given<Shape>>]
        : [given: Omit<Given<Shape>, 'query'> & Partial<Pick<Given<Shape>, keyof Given<Shape> & 'query'>>]
      : [given: Omit<Given<Shape>, 'query'> & Partial<Pick<Given<Shape>, keyof Given<Shape> & 'query'>>];

interface LooselyGiven {
  path?: Record<string, string> | undefined;
  query?: object | undefined;
  body?: unknown;
  signal?: AbortSignal | undefined;
}

/**
 * The REST API of a gateway, with the types of its OpenAPI document.
 *
 *     const rest = new RestClient({ baseUrl: 'http://127.0.0.1:42617', token });
 *     const { tools } = await rest.get('/api/tools');
 *     await rest.put('/api/sessions/{session_id}', { path: { session_id }, body: { name: 'Paris' } });
 */
export class RestClient {
  readonly #connection: Connection;

  constructor(options: ConnectionOptions) {
    this.#connection = new Connection(options);
  }

  get<P extends PathOf<'GET'>>(path: P, ...given: Arguments<At<'GET', P>>): Promise<At<'GET', P>['answer']> {
    return this.#ask('GET', path, given[0]);
  }

  post<P extends PathOf<'POST'>>(path: P, ...given: Arguments<At<'POST', P>>): Promise<At<'POST', P>['answer']> {
    return this.#ask('POST', path, given[0]);
  }

  put<P extends PathOf<'PUT'>>(path: P, ...given: Arguments<At<'PUT', P>>): Promise<At<'PUT', P>['answer']> {
    return this.#ask('PUT', path, given[0]);
  }

  patch<P extends PathOf<'PATCH'>>(path: P, ...given: Arguments<At<'PATCH', P>>): Promise<At<'PATCH', P>['answer']> {
    return this.#ask('PATCH', path, given[0]);
  }

  delete<P extends PathOf<'DELETE'>>(
    path: P,
    ...given: Arguments<At<'DELETE', P>>
  ): Promise<At<'DELETE', P>['answer']> {
    return this.#ask('DELETE', path, given[0]);
  }

  /**
   * Which lists change, as it happens; connects again after a drop. The first update of each connection is `ready`: read
   * the lists again then, since updates that came in between are lost. `onDrop` is called when a connection has ended, and
   * the next one is tried. Ends with `signal`, or with the refusal.
   */
  live(signal?: AbortSignal, onDrop?: () => void): AsyncGenerator<LiveUpdate, void> {
    return liveUpdates(this.#connection, signal, onDrop);
  }

  /** The address of a path, such as one of an image. */
  url(path: string): string {
    return this.#connection.url(path);
  }

  async #ask<Answer>(method: Method, path: string, given: unknown): Promise<Answer> {
    const { path: names = {}, query, body, signal } = (given ?? {}) as LooselyGiven;
    const filled = path.replace(/{(\w+)}/g, (_, name: string) => encodeURIComponent(names[name] ?? ''));
    return this.#connection.whole(filled, { method, query, body, signal }, async (response) => {
      const isJson = response.headers.get('content-type')?.startsWith('application/json');
      return (isJson ? await response.json() : await response.blob()) as Answer;
    });
  }
}
