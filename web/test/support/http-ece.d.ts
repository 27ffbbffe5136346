declare module 'http_ece' {
  import type { ECDH } from 'node:crypto';

  const ece: { decrypt(body: Buffer, given: { version: string; privateKey: ECDH; authSecret: string }): Buffer };
  // biome-ignore lint/style/noDefaultExport: that is how the package has it
  export default ece;
}
