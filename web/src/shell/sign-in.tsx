import { Code } from '../parts/code.tsx';
import { Brand } from './nav.tsx';

/** The page of a browser that is not signed in: what to do, in one step. */
export function SignIn() {
  return (
    <main class="sign-in">
      <Brand />
      <h1>Not signed in</h1>
      <p>
        This browser is not signed in to the gateway at {location.host}. On the computer that runs it, ask for a link
        and open it here:
      </p>
      <Code text="handspan pair --browser" />
      <p class="muted">
        The link works once, for ten minutes. If <code>handspan serve</code> was started just now, it has shown one
        already.
      </p>
      <button type="button" class="main" onClick={() => location.reload()}>
        I have opened it: try again
      </button>
    </main>
  );
}
