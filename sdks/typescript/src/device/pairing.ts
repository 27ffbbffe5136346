/** A gateway, and the token that it gave this device. Keep the token: a pairing link works once. */
export interface PairedGateway {
  readonly url: string;
  readonly token: string;
}

export interface PairOptions {
  /** What the gateway's list of tokens calls this client. */
  label?: string | undefined;
  /** What the token may do: no more than the code gives. Default: `device`. */
  scopes?: readonly string[] | undefined;
}

const LINK = /^(https?:\/\/[^?#]*?)\/(?:device|pair)\/?#(?:.*&)?code=([\d-]+)$/;

/** The address and the code of a pairing link, such as `https://192.168.1.7:42617/device#code=1234-5678-9012`. */
export function readPairingLink(link: string): { url: string; code: string } {
  const [, url, code] = LINK.exec(link) ?? [];
  if (!url || !code) throw new TypeError(`'${link.split('#')[0]}' is no pairing link: it ends with /device#code=…`);
  return { url, code };
}

/** Exchanges a pairing link, as a QR code has it, for a token; rejects with the gateway's reason. */
export async function pair(
  link: string,
  { label = '', scopes = ['device'] }: PairOptions = {},
): Promise<PairedGateway> {
  const { url, code } = readPairingLink(link);
  const answer = await fetch(`${url}/pair`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ code, label, scopes }),
    signal: AbortSignal.timeout(30_000),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${url} did not pair: ${reasonOf(text)}`);
  return { url, token: (JSON.parse(text) as { token: string }).token };
}

function reasonOf(text: string): string {
  try {
    const { message, error } = JSON.parse(text) as { message?: string; error?: string };
    return message ?? error ?? text.slice(0, 200);
  } catch {
    return text.slice(0, 200);
  }
}
