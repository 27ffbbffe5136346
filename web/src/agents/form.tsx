import { useSignal } from '@preact/signals';
import type { AgentView } from 'handspan/rest';
import { useId } from 'preact/hooks';
import { useLive } from '../gateway/live.ts';
import { rest } from '../gateway/rest.ts';
import { Problem } from '../parts/empty.tsx';
import { useFormWork } from '../parts/form-work.ts';
import { Field } from '../parts/section.tsx';
import { go } from '../router.ts';

const MODES: [AgentView['mode'], string][] = [
  ['automatic', 'Automatic: tools run; a person is asked only for permissions'],
  ['ask_destructive', 'Ask before a tool that may do harm'],
  ['ask_always', 'Ask before every call'],
  ['read_only', 'Read only: tools that change something never run'],
];

/** The fields of an agent that a person writes. They apply to the next request. */
export function AgentForm({ agent }: { agent: AgentView }) {
  const draft = useSignal(agent);
  const models = useLive(['models'], () => rest.get('/api/models')).data.value;
  const list = useId();
  const { problem, attempt } = useFormWork();
  const set = (changed: Partial<AgentView>) => {
    draft.value = { ...draft.value, ...changed };
  };
  const save = async (event: Event) => {
    event.preventDefault();
    const { name, description, instructions, model, mode, max_tool_iterations, limits } = draft.value;
    const body = { name, description, instructions, model, mode, max_tool_iterations, limits };
    const isDone = await attempt(
      () => rest.patch('/api/agents/{name}', { path: { name: agent.name }, body }),
      'Saved. It applies to the next request.',
    );
    if (isDone && name !== agent.name) go('agents', [name], { replace: true });
  };
  const isFixed = agent.kept === 'settings';
  return (
    <form class="card part" onSubmit={(event) => void save(event)}>
      <fieldset class="bare" disabled={isFixed}>
        <div class="two">
          <Field label="Name">
            {(id) => (
              <input
                id={id}
                type="text"
                required
                maxLength={100}
                disabled={agent.kept !== 'store'}
                value={draft.value.name}
                onInput={(event) => set({ name: event.currentTarget.value })}
              />
            )}
          </Field>
          <Field label="Model">
            {(id) => (
              <>
                <input
                  id={id}
                  type="text"
                  list={list}
                  placeholder={models ? `${models.default.model} (the gateway’s)` : 'the gateway’s'}
                  value={draft.value.model}
                  onInput={(event) => set({ model: event.currentTarget.value })}
                />
                <datalist id={list}>
                  {models?.models.map((name) => (
                    <option key={String(name)} value={String(name)} />
                  ))}
                </datalist>
              </>
            )}
          </Field>
        </div>
        <Field label="Description" hint="One sentence for people who choose an agent.">
          {(id, hint) => (
            <input
              id={id}
              type="text"
              aria-describedby={hint}
              value={draft.value.description}
              onInput={(event) => set({ description: event.currentTarget.value })}
            />
          )}
        </Field>
        <Field label="Instructions">
          {(id) => (
            <textarea
              id={id}
              rows={7}
              value={draft.value.instructions}
              onInput={(event) => set({ instructions: event.currentTarget.value })}
            />
          )}
        </Field>
        <Field label="When a person is asked">
          {(id) => (
            <select
              id={id}
              value={draft.value.mode}
              onChange={(event) => set({ mode: event.currentTarget.value as AgentView['mode'] })}
            >
              {MODES.map(([mode, text]) => (
                <option key={mode} value={mode}>
                  {text}
                </option>
              ))}
            </select>
          )}
        </Field>
        <Limits draft={draft.value} set={set} />
        <Problem text={problem.value} />
        <footer class="buttons">
          <button type="submit" class="main">
            Save
          </button>
        </footer>
      </fieldset>
    </form>
  );
}

function Limits({ draft, set }: { draft: AgentView; set: (changed: Partial<AgentView>) => void }) {
  const { limits, max_tool_iterations: rounds } = draft;
  return (
    <div class="three">
      <Limit label="Rounds in a turn" value={rounds} onChange={(value) => set({ max_tool_iterations: value })} />
      <Limit
        label="Equal calls in a turn"
        value={limits.repeats}
        onChange={(repeats) => set({ limits: { ...limits, repeats } })}
      />
      <Limit
        label="Failed rounds in a row"
        value={limits.failed_rounds}
        onChange={(failed_rounds) => set({ limits: { ...limits, failed_rounds } })}
      />
    </div>
  );
}

function Limit(props: { label: string; value: number | null | undefined; onChange: (value: number | null) => void }) {
  return (
    <Field label={props.label}>
      {(id) => (
        <input
          id={id}
          type="number"
          min={1}
          placeholder="no limit"
          value={props.value ?? ''}
          onInput={({ currentTarget: { valueAsNumber: entered } }) =>
            props.onChange(Number.isNaN(entered) ? null : entered)
          }
        />
      )}
    </Field>
  );
}
