import { useSignal } from '@preact/signals';
import type { ListedModel, ModelOffer, ModelTest, NewModel } from 'handspan/rest';
import { isAdmin, readAccount, shortWhy } from '../gateway/account.ts';
import { useLive } from '../gateway/live.ts';
import { messageOf, rest, slowRest } from '../gateway/rest.ts';
import type { PageProps } from '../pages.ts';
import { duration } from '../parts/ago.tsx';
import { confirm } from '../parts/confirm.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { Problem } from '../parts/empty.tsx';
import { Icon } from '../parts/icon.tsx';
import { Badge, List, Row, Sheet } from '../parts/list.tsx';
import { attempt } from '../parts/toast.tsx';
import { go } from '../router.ts';

/** The models: which one answers and why, and how to use another one. */
export function Page({ rest: [what] }: PageProps) {
  const { data, problem, reload } = useLive(['models'], () => rest.get('/api/models'));
  const known = data.value;
  const use = (model: string) =>
    attempt(
      async () => {
        await rest.post('/api/models/use', { body: { model } });
        await Promise.all([reload(), readAccount()]);
      },
      `${model || 'The model of the settings'} answers from the next message on.`,
    );
  const remove = async (name: string) => {
    if (!(await confirm(`Remove ${name}?`, 'Its key is removed too.', 'Remove'))) return;
    await attempt(async () => {
      await rest.delete('/api/models/{name}', { path: { name } });
      await Promise.all([reload(), readAccount()]);
    });
  };
  const add = isAdmin() && (
    <button type="button" class="main" onClick={() => go('models', ['add'])}>
      <Icon name="plus" />
      Use a real model
    </button>
  );
  return (
    <Sheet title="Models" text="The model thinks; the tools act." actions={add}>
      <Problem text={problem.value} />
      {known && (
        <>
          <section class="answers" aria-label="The model that answers">
            <Icon name="model" />
            <div>
              <b>{known.default.model}</b> answers <small>{shortWhy(known.default)}</small>
            </div>
          </section>
          <List label="Models">
            {known.listed.map((model) => (
              <ModelRow
                key={model.name}
                model={model}
                isUsed={model.name === known.default.model}
                onUse={() => void use(model.name)}
                onRemove={() => void remove(model.name)}
              />
            ))}
            <Row
              title="offline"
              text="A stand-in that follows rules: no key, no network"
              side={known.default.provider === 'offline' ? <Badge kind="good">answers</Badge> : undefined}
              actions={
                isAdmin() &&
                known.default.provider !== 'offline' && (
                  <button type="button" onClick={() => void use('offline')}>
                    Use
                  </button>
                )
              }
            />
          </List>
        </>
      )}
      <Dialog title="Use a real model" isOpen={what === 'add' && isAdmin()} onClose={() => go('models')}>
        <AddModel onDone={() => void Promise.all([reload(), readAccount()])} />
      </Dialog>
    </Sheet>
  );
}

const KEYS = { stored: 'key stored', variable: 'key in', none: 'without a key' };

interface ModelRowProps {
  model: ListedModel;
  isUsed: boolean;
  onUse: () => void;
  onRemove: () => void;
}

function ModelRow({ model, isUsed, onUse, onRemove }: ModelRowProps) {
  const { name, api, model: id, base_url: address, key, key_variable: variable, is_fixed: isFixed } = model;
  return (
    <Row
      title={name}
      text={[id !== name && id, api, address, `${KEYS[key]} ${variable}`, isFixed && 'in the settings file']
        .filter(Boolean)
        .join(' · ')}
      side={isUsed && <Badge kind="good">answers</Badge>}
      actions={
        isAdmin() && (
          <>
            {!isUsed && (
              <button type="button" onClick={onUse}>
                Use
              </button>
            )}
            {!isFixed && (
              <button type="button" class="plain" aria-label={`Remove ${name}`} title="Remove" onClick={onRemove}>
                <Icon name="trash" />
              </button>
            )}
          </>
        )
      }
    />
  );
}

/** The steps to a real model: which one, its key, a test call, and done. */
function AddModel({ onDone }: { onDone: () => void }) {
  const { data, problem } = useLive([], () => rest.get('/api/models/offers'));
  const chosen = useSignal<ModelOffer | undefined>(undefined);
  if (problem.value) return <Problem text={problem.value} />;
  if (!chosen.value) {
    return (
      <ul class="offers">
        {data.value?.offers.map((offer) => (
          <li key={offer.id}>
            <button
              type="button"
              onClick={() => {
                chosen.value = offer;
              }}
            >
              <b>{offer.title}</b>
              <small>{describe(offer)}</small>
            </button>
          </li>
        ))}
        {!data.value && <p class="muted">Looking for a local Ollama…</p>}
      </ul>
    );
  }
  return (
    <ModelForm
      offer={chosen.value}
      onBack={() => {
        chosen.value = undefined;
      }}
      onDone={onDone}
    />
  );
}

function describe({ id, is_found: isFound, is_key_set: isSet, key_variable: variable, model }: ModelOffer): string {
  if (id === 'ollama') return isFound ? `found on this computer: ${model}` : 'not found on this computer';
  if (id === 'custom') return 'any server that speaks Chat Completions';
  return isSet ? `${variable} is set` : 'with a key of yours';
}

function ModelForm({ offer, onBack, onDone }: { offer: ModelOffer; onBack: () => void; onDone: () => void }) {
  const given = useSignal<NewModel>({ api: offer.api, model: offer.model, base_url: offer.base_url });
  const usesVariable = useSignal(offer.is_key_set);
  const tested = useSignal<ModelTest | undefined>(undefined);
  const isBusy = useSignal(false);
  const set = (change: Partial<NewModel>) => {
    given.value = { ...given.value, ...change };
    tested.value = undefined;
  };
  const body = (): NewModel => {
    const { key = '', key_variable: variable = offer.key_variable, ...others } = given.value;
    return usesVariable.value ? { ...others, key_variable: variable } : { ...others, key };
  };
  const save = async () => {
    if (isBusy.value) return;
    isBusy.value = true;
    try {
      tested.value = await slowRest.post('/api/models/test', { body: body() });
      if (tested.value.ok) {
        const name = offer.id === 'custom' ? given.value.model : offer.id;
        await rest.put('/api/models/{name}', { path: { name }, body: body() });
        await rest.post('/api/models/use', { body: { model: name } });
        onDone();
      }
    } catch (error) {
      tested.value = { ok: false, reason: messageOf(error), seconds: 0 };
    }
    isBusy.value = false;
  };
  if (tested.value?.ok) {
    return (
      <div class="fields">
        <p>
          <Badge kind="good">works</Badge> {given.value.model} answered in {duration(tested.value.seconds)}:{' '}
          <q>{tested.value.reason}</q>
        </p>
        <footer class="buttons">
          <button type="button" class="main" onClick={() => go('chat')}>
            Begin to chat
          </button>
        </footer>
      </div>
    );
  }
  const needsAddress = offer.id === 'custom' || offer.id === 'ollama';
  return (
    <form
      class="fields"
      onSubmit={(event) => {
        event.preventDefault();
        void save();
      }}
    >
      {needsAddress && (
        <Field
          label="Base URL"
          value={given.value.base_url ?? ''}
          placeholder="http://127.0.0.1:8080/v1"
          hints={offer.id === 'custom' ? SERVERS : []}
          onInput={(address) => set({ base_url: address })}
        />
      )}
      <Field label="Model" value={given.value.model} onInput={(model) => set({ model })} />
      {offer.id !== 'ollama' && (
        <>
          <div class="choice" role="radiogroup" aria-label="The key">
            <label>
              <input
                type="radio"
                name="key"
                checked={!usesVariable.value}
                onChange={() => (usesVariable.value = false)}
              />
              Paste a key
            </label>
            <label>
              <input
                type="radio"
                name="key"
                checked={usesVariable.value}
                onChange={() => (usesVariable.value = true)}
              />
              Name an environment variable
            </label>
          </div>
          {usesVariable.value ? (
            <Field
              label="Variable"
              value={given.value.key_variable ?? offer.key_variable}
              onInput={(variable) => set({ key_variable: variable })}
            />
          ) : (
            <div class="field">
              <label for="model-key">Key</label>
              <input
                id="model-key"
                type="password"
                autocomplete="off"
                value={given.value.key ?? ''}
                onInput={(event) => set({ key: event.currentTarget.value })}
              />
              <small>
                {offer.id === 'custom' && 'Servers on your own computers mostly need none. '}It stays on the computer of
                the gateway, in a file that only its user can read. It is never shown again.
              </small>
            </div>
          )}
        </>
      )}
      {tested.value && <Problem text={tested.value.reason} />}
      <footer class="buttons">
        <button type="button" onClick={onBack}>
          Back
        </button>
        <button type="submit" class="main" disabled={!given.value.model.trim()} aria-disabled={isBusy.value}>
          {isBusy.value ? 'Testing…' : 'Test and use'}
        </button>
      </footer>
    </form>
  );
}

/** Where servers of Chat Completions usually are. */
const SERVERS: [address: string, name: string][] = [
  ['http://127.0.0.1:1234/v1', 'LM Studio'],
  ['http://127.0.0.1:8000/v1', 'vLLM'],
  ['http://127.0.0.1:8080/v1', 'llama.cpp'],
  ['https://openrouter.ai/api/v1', 'OpenRouter'],
];

interface FieldProps {
  label: string;
  value: string;
  placeholder?: string;
  /** What the field offers, with its name. */
  hints?: [text: string, name: string][];
  onInput: (text: string) => void;
}

function Field({ hints = [], ...props }: FieldProps) {
  const id = `model-${props.label.toLowerCase().replace(/ /g, '-')}`;
  return (
    <div class="field">
      <label for={id}>{props.label}</label>
      <input
        id={id}
        type="text"
        value={props.value}
        placeholder={props.placeholder ?? ''}
        list={hints.length > 0 ? `${id}-hints` : undefined}
        onInput={(event) => props.onInput(event.currentTarget.value)}
      />
      {hints.length > 0 && (
        <>
          <datalist id={`${id}-hints`}>
            {hints.map(([text, name]) => (
              <option key={text} value={text}>
                {name}
              </option>
            ))}
          </datalist>
          <small>The field offers where {hints.map(([, name]) => name).join(', ')} usually are.</small>
        </>
      )}
    </div>
  );
}
