/** What the address of a scanned QR code says. */
export interface ScannedCode {
  code: string;
  /** A link that opens the app of Handspan with the same code; empty where no such app exists. */
  app: string;
}

/** The code in this page's address, if it has one. The code is a secret: it leaves the address and the history. */
export function takeScannedCode(): ScannedCode | undefined {
  const fields = new URLSearchParams(location.hash.slice(1));
  const code = fields.get('code');
  if (!code) return;
  history.replaceState(null, '', location.pathname);
  return { code, app: /Android/.test(navigator.userAgent) ? appLink(code, fields.get('root')) : '' };
}

/** The root's fingerprint goes along: by it the app trusts the certificate of this gateway. */
function appLink(code: string, root: string | null): string {
  const url = new URL('.', location.href).href.replace(/\/$/, '');
  return `handspan://pair?${new URLSearchParams({ url, ...(root && { root }), code })}`;
}
