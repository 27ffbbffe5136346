import { useSignal } from '@preact/signals';
import type { McpLoginPage, NewMcpServer } from 'handspan/rest';
import { useLive } from '../gateway/live.ts';
import { rest, slowRest } from '../gateway/rest.ts';
import { asText, Code } from '../parts/code.tsx';
import { Problem } from '../parts/empty.tsx';
import { useFormWork } from '../parts/form-work.ts';
import { Badge } from '../parts/list.tsx';
import { Field, plural, Section } from '../parts/section.tsx';
import { attempt, toast } from '../parts/toast.tsx';

/** The words of a command line; quotes keep spaces. */
export function wordsOf(line: string): string[] {
  return [...line.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(([, one, other, plain]) => one ?? other ?? plain ?? '');
}

/** Lines of NAME=VALUE. */
function pairsOf(text: string): Record<string, string> {
  const lines = text.split('\n').filter((line) => line.includes('='));
  return Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf('=')).trim(), line.slice(line.indexOf('=') + 1).trim()]),
  );
}

/** A form for a server: its command line or its address. */
export function AddServer({ onDone, onCancel }: { onDone: () => Promise<void>; onCancel: () => void }) {
  const name = useSignal('');
  const where = useSignal('');
  const values = useSignal('');
  const clientId = useSignal('');
  const isHidden = useSignal(false);
  const isBusy = useSignal(false);
  const { problem, attempt } = useFormWork();
  const isUrl = /^https?:\/\//.test(where.value.trim());
  const add = async (event: Event) => {
    event.preventDefault();
    if (isBusy.value) return;
    isBusy.value = true;
    const [command = '', ...args] = wordsOf(where.value);
    const pairs = pairsOf(values.value);
    const client = clientId.value.trim();
    const reached: NewMcpServer = isUrl
      ? { url: where.value.trim(), headers: pairs, ...(client && { oauth: { client_id: client } }) }
      : { command, args, env: pairs };
    const path = { name: name.value.trim() };
    const isDone = await attempt(async () => {
      await slowRest.put('/api/mcp/{name}', { path, body: { ...reached, internal_only: isHidden.value } });
      const tried = await slowRest.post('/api/mcp/{name}/test', { path });
      if (tried.status === 'ready') toast(`${path.name} has ${plural(tried.tools.length, 'tool')}.`);
      else toast(`${path.name} is stored, but not ready: ${tried.reason || tried.status}`, { isProblem: true });
    });
    isBusy.value = false;
    if (isDone) await onDone();
  };
  return (
    <form class="fields" onSubmit={(event) => void add(event)}>
      <Field label="Name" hint="The prefix of its tools: letters, digits, '-' and '_'.">
        {(id, hint) => (
          <input
            id={id}
            type="text"
            required
            aria-describedby={hint}
            value={name.value}
            onInput={(event) => (name.value = event.currentTarget.value)}
          />
        )}
      </Field>
      <Field label="Command line or address" hint="As uvx mcp-server-time, or https://tracker.example.com/mcp">
        {(id, hint) => (
          <input
            id={id}
            type="text"
            required
            class="mono"
            aria-describedby={hint}
            value={where.value}
            onInput={(event) => (where.value = event.currentTarget.value)}
          />
        )}
      </Field>
      <Field
        label={isUrl ? 'Headers' : 'Variables'}
        hint="NAME=VALUE, one in a line. env:NAME as a value takes it from the gateway’s environment."
      >
        {(id, hint) => (
          <textarea
            id={id}
            rows={2}
            class="mono"
            aria-describedby={hint}
            value={values.value}
            onInput={(event) => (values.value = event.currentTarget.value)}
          />
        )}
      </Field>
      {isUrl && (
        <Field label="Client ID" hint="Only for a server whose login knows this gateway by an ID that it was given.">
          {(id, hint) => (
            <input
              id={id}
              type="text"
              aria-describedby={hint}
              value={clientId.value}
              onInput={(event) => (clientId.value = event.currentTarget.value)}
            />
          )}
        </Field>
      )}
      <label class="check">
        <input
          type="checkbox"
          checked={isHidden.value}
          onChange={(event) => (isHidden.value = event.currentTarget.checked)}
        />
        <span>Hide its tools until a skill names them</span>
      </label>
      <Problem text={problem.value} />
      <footer class="buttons">
        <button type="button" onClick={onCancel}>
          Cancel
        </button>
        <button
          type="submit"
          class="main"
          disabled={!name.value.trim() || !where.value.trim()}
          aria-disabled={isBusy.value}
        >
          {isBusy.value ? 'Starting it…' : 'Add and test'}
        </button>
      </footer>
    </form>
  );
}

/** New and changed definitions, each beside the one that was accepted. */
export function Changes({ name, reload }: { name: string; reload: () => Promise<void> }) {
  const path = { name };
  const { data, problem } = useLive(['tools'], () => rest.get('/api/mcp/{name}/changes', { path }));
  const trust = async () => {
    await attempt(() => rest.post('/api/mcp/{name}/trust', { path }), 'They are accepted as they are now.');
    await reload();
  };
  return (
    <Section
      title="New and changed definitions"
      side={
        <button type="button" class="main" onClick={() => void trust()}>
          Accept all
        </button>
      }
    >
      <Problem text={problem.value} />
      {data.value?.tools.map(({ tool, old, new: now, is_blocked }) => (
        <details key={tool} class="card change" open={old !== null}>
          <summary>
            <b>{tool}</b> <Badge kind="waits">{old ? 'changed' : 'new'}</Badge>{' '}
            {is_blocked && <Badge kind="bad">can’t be called</Badge>}
          </summary>
          <div class={old ? 'two' : ''}>
            {old && (
              <div>
                <h3>Before</h3>
                <Code text={asText(old)} label="Copy the old definition" />
              </div>
            )}
            <div>
              <h3>Now</h3>
              <Code text={asText(now)} label="Copy the new definition" />
            </div>
          </div>
        </details>
      ))}
    </Section>
  );
}

/** The login at a server, in another tab of the browser. */
export function LoginPart({ name, reload }: { name: string; reload: () => Promise<void> }) {
  const path = { name };
  const login = useSignal<McpLoginPage | undefined>(undefined);
  const address = useSignal('');
  const begin = () =>
    attempt(async () => {
      login.value = await rest.post('/api/mcp/{name}/login', { path });
    });
  const check = (work: () => Promise<{ status: string; reason?: string | undefined }>) =>
    attempt(async () => {
      const { status, reason } = await work();
      if (status === 'open') toast('The login is not complete yet.');
      else
        toast(status === 'done' ? 'You are logged in.' : `The login failed: ${reason}`, {
          isProblem: status !== 'done',
        });
      if (status !== 'open') login.value = undefined;
      await reload();
    });
  const leave = () => attempt(() => rest.post('/api/mcp/{name}/logout', { path }), 'Its tokens are removed.');
  return (
    <Section
      title="Login"
      side={
        <span class="buttons">
          <button type="button" onClick={() => void leave()}>
            Log out
          </button>
          <button type="button" onClick={() => void begin()}>
            Log in
          </button>
        </span>
      }
    >
      {login.value && (
        <div class="card">
          <p>
            <a href={login.value.address} target="_blank" rel="noreferrer">
              Open the login page
            </a>{' '}
            in a new tab, and come back here.
          </p>
          <Field
            label="Where the browser ended"
            hint="Only if the last page could not be loaded: its address, from the address bar."
          >
            {(id, hint) => (
              <input
                id={id}
                type="text"
                aria-describedby={hint}
                value={address.value}
                onInput={(event) => (address.value = event.currentTarget.value)}
              />
            )}
          </Field>
          <footer class="buttons">
            <button
              type="button"
              class="main"
              onClick={() =>
                void check(() =>
                  address.value
                    ? rest.post('/api/mcp/{name}/login/return', { path, body: { address: address.value } })
                    : rest.post('/api/mcp/{name}/login/wait', { path }),
                )
              }
            >
              I have logged in
            </button>
          </footer>
        </div>
      )}
    </Section>
  );
}
