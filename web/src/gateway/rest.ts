import { RestClient } from 'handspan/rest';

/** The gateway that serves this page. The browser's cookie is the token. */
export const BASE = new URL('.', location.href).pathname.replace(/\/$/, '');
export const rest = new RestClient({ baseUrl: BASE, timeout: 60_000 });
/** The same for what takes as long as it takes: a file over a slow network, a tool, a server or a model that starts. */
export const slowRest = new RestClient({ baseUrl: BASE, timeout: 3_600_000 });

/** The sentence of an error, for people. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The address at which an artifact is shown or downloaded. */
export function artifactUrl(id: string): string {
  return rest.url(`/api/artifacts/${encodeURIComponent(id)}`);
}
