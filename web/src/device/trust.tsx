import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';

/** How to get HTTPS on this phone: the root of the gateway, where it has one, or what to start it with. */
export function Trust() {
  const hasRoot = useSignal<boolean | undefined>(undefined);
  useEffect(() => {
    fetch('./device/root.crt').then(
      ({ ok }) => {
        hasRoot.value = ok;
      },
      () => undefined,
    );
  }, [hasRoot]);
  if (hasRoot.value) return <Root />;
  if (isSecureContext) return null;
  return (
    <section class="card">
      <h2>Some tools are off without HTTPS</h2>
      <p>
        Browsers give camera, place, motion and clipboard only to pages over HTTPS. Start the gateway with{' '}
        <code>handspan serve --lan --tls</code>, or put it behind a tunnel or a reverse proxy that has a certificate.
      </p>
    </section>
  );
}

function Root() {
  return (
    <details class="card">
      <summary>Does the browser warn about this page? Load the root certificate</summary>
      <p>
        It was made on your own computer and can sign for private addresses and <code>.local</code> names alone. Compare
        its SHA-256 with the one that <code>handspan serve</code> shows.
      </p>
      <h3>Android</h3>
      <ol>
        <li>
          <a href="./device/root.crt">Download the root</a>.
        </li>
        <li>
          Settings → Security → More security settings → Encryption and credentials → Install a certificate → CA
          certificate.
        </li>
        <li>Choose the file, then load this page again.</li>
      </ol>
      <h3>iPhone and iPad</h3>
      <ol>
        <li>
          <a href="./device/root.mobileconfig">Download the profile</a>, and allow it.
        </li>
        <li>Settings → Profile Downloaded → Install.</li>
        <li>Settings → General → About → Certificate Trust Settings: switch the root on, then load this page again.</li>
      </ol>
    </details>
  );
}
