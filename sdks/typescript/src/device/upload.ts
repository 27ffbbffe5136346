import type { Address } from './address.js';
import type { Upload } from './results.js';

/** Uploads Blobs to this gateway; rejects with the reason when that fails (ws.md 5.10). */
export function uploadTo(address: Address, token: string): Upload {
  return async (blob, name) => {
    const query = name && `?name=${encodeURIComponent(name.slice(-200))}`;
    let said = '';
    try {
      const response = await fetch(address.http(`/api/artifacts${query}`), {
        method: 'POST',
        body: blob,
        headers: bearer(token),
        signal: AbortSignal.timeout(60_000),
      });
      said = await response.text();
      if (response.ok) return JSON.parse(said).id;
    } catch (error) {
      said = String(error);
    }
    const text = `The tool ran, but its result of ${blob.size} bytes could not be uploaded: ${said.slice(0, 200)}`;
    throw Object.assign(new Error(text), { code: 'network_error' });
  };
}

/** The header with the token; none without a token: then the page's cookie counts (ws.md 1.2). */
export function bearer(token: string): Record<string, string> {
  return token ? { Authorization: `Bearer ${token}` } : {};
}
