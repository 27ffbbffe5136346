import { useSignal } from '@preact/signals';
import type { MadeToken, NewToken, TokenView } from 'handspan/rest';
import { useLive } from '../gateway/live.ts';
import { rest } from '../gateway/rest.ts';
import type { PageProps } from '../pages.ts';
import { Ago } from '../parts/ago.tsx';
import { Code } from '../parts/code.tsx';
import { confirm } from '../parts/confirm.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { Problem } from '../parts/empty.tsx';
import { useFormWork } from '../parts/form-work.ts';
import { Icon } from '../parts/icon.tsx';
import { Badge, List, Row, Sheet } from '../parts/list.tsx';
import { Field } from '../parts/section.tsx';
import { attempt } from '../parts/toast.tsx';

type TokenScope = NonNullable<NewToken['scopes']>[number];

const SCOPES: [TokenScope, string][] = [
  ['chat', 'Talk with agents, and see your sessions and calls'],
  ['device', 'Be a device: lend tools'],
  ['tools', 'Call tools, and no more'],
  ['admin', 'Everything, with tokens and servers'],
];

/** The tokens of this person: made, shown once, revoked. */
export function Page(_: PageProps) {
  const { data, problem } = useLive(['tokens', 'devices'], () => rest.get('/api/tokens'));
  const isMaking = useSignal(false);
  const tokens = [...(data.value?.tokens ?? [])].sort((one, other) => Number(other.current) - Number(one.current));
  const revoked = tokens.filter((one) => one.revoked).length;
  return (
    <Sheet
      title="Tokens"
      text="Programs, devices and browsers that are let in as you."
      actions={
        <button type="button" class="main" onClick={() => (isMaking.value = true)}>
          <Icon name="plus" />
          New token
        </button>
      }
    >
      <Problem text={problem.value} />
      <List label="Tokens">
        {tokens
          .filter((one) => !one.revoked)
          .map((token) => (
            <TokenRow key={token.id} token={token} />
          ))}
      </List>
      {revoked > 0 && <p class="muted">{revoked === 1 ? '1 is revoked.' : `${revoked} are revoked.`}</p>}
      <Dialog title="New token" isOpen={isMaking.value} onClose={() => (isMaking.value = false)}>
        {isMaking.value && <MakeToken onDone={() => (isMaking.value = false)} />}
      </Dialog>
    </Sheet>
  );
}

function TokenRow({ token }: { token: TokenView }) {
  const label = token.label || `Token ${token.id.slice(0, 6)}`;
  const revoke = async () => {
    const text = token.current ? 'It is the one of this page: you are signed out.' : 'What uses it is cut off at once.';
    if (!(await confirm(`Revoke ${label}?`, text, 'Revoke'))) return;
    await attempt(() => rest.delete('/api/tokens/{token_id}', { path: { token_id: token.id } }), 'It is revoked.');
  };
  return (
    <Row
      title={
        <>
          {label} {token.current && <Badge kind="good">this browser</Badge>}
        </>
      }
      text={
        <>
          {token.scopes.join(', ')} · made <Ago at={token.created} />
        </>
      }
      side={
        <>
          used <Ago at={token.last_seen} />
        </>
      }
      actions={
        <button type="button" class="danger" aria-label={`Revoke ${label}`} onClick={() => void revoke()}>
          Revoke
        </button>
      }
    />
  );
}

function MakeToken({ onDone }: { onDone: () => void }) {
  const label = useSignal('');
  const scopes = useSignal<TokenScope[]>(['chat']);
  const made = useSignal<MadeToken | undefined>(undefined);
  const { problem, attempt } = useFormWork();
  const make = (event: Event) => {
    event.preventDefault();
    void attempt(async () => {
      made.value = await rest.post('/api/tokens', { body: { label: label.value, scopes: scopes.value } });
    });
  };
  if (made.value) {
    return (
      <>
        <p>Copy it now: it is not shown again.</p>
        <Code text={made.value.token} label="Copy the token" />
        <footer class="buttons">
          <button type="button" class="main" onClick={onDone}>
            Done
          </button>
        </footer>
      </>
    );
  }
  return (
    <form class="fields" onSubmit={make}>
      <Field label="Label" hint="A name for people, such as the program that uses it.">
        {(id, hint) => (
          <input
            id={id}
            type="text"
            maxLength={64}
            aria-describedby={hint}
            value={label.value}
            onInput={(event) => (label.value = event.currentTarget.value)}
          />
        )}
      </Field>
      <fieldset class="fields">
        <legend>What it may do</legend>
        {SCOPES.map(([scope, text]) => (
          <label key={scope} class="check">
            <input
              type="checkbox"
              checked={scopes.value.includes(scope)}
              onChange={({ currentTarget: { checked } }) => {
                const others = scopes.value.filter((one) => one !== scope);
                scopes.value = checked ? [...others, scope] : others;
              }}
            />
            <span>
              {scope}
              <small>{text}</small>
            </span>
          </label>
        ))}
      </fieldset>
      <Problem text={problem.value} />
      <footer class="buttons">
        <button type="button" onClick={onDone}>
          Cancel
        </button>
        <button type="submit" class="main" disabled={scopes.value.length === 0}>
          Make it
        </button>
      </footer>
    </form>
  );
}
