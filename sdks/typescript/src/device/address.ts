/** A gateway's address: one form that people write, and the WebSocket and HTTP URLs made from it. */
export class Address {
  #base: URL;

  /** http(s) or ws(s), with a path prefix; in a page also relative to it. */
  constructor(url: string) {
    this.#base = new URL(url, globalThis.location?.href);
  }

  /** Whether the gateway is on this computer. */
  get isLocal(): boolean {
    return ['localhost', '127.0.0.1', '[::1]'].includes(this.#base.hostname);
  }

  /** The URL of the WebSocket (ws.md 1.1). */
  socket(session: string, agent = ''): string {
    const query = Object.entries({ session_id: session, persona: agent })
      .filter(([, value]) => value)
      .map(([name, value]) => `${name}=${encodeURIComponent(value)}`);
    return this.#at('ws', `/ws/chat${query.length > 0 ? `?${query.join('&')}` : ''}`);
  }

  /** The URL of a path below the prefix. */
  http(path: string): string {
    return this.#at('http', path);
  }

  #at(scheme: string, path: string): string {
    const { protocol, host, pathname } = this.#base;
    const prefix = pathname.replace(/\/*$/, '').replace(/\/ws\/chat$/, '');
    return `${protocol.replace(/^(http|ws)/, scheme)}//${host}${prefix}${path}`;
  }
}
