import { useSignal } from '@preact/signals';
import type { AgentView } from 'handspan/rest';
import { useLive } from '../gateway/live.ts';
import { rest } from '../gateway/rest.ts';
import type { PageProps } from '../pages.ts';
import { confirm } from '../parts/confirm.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { Empty, Problem } from '../parts/empty.tsx';
import { useFormWork } from '../parts/form-work.ts';
import { Icon } from '../parts/icon.tsx';
import { Badge, List, Row, Sheet } from '../parts/list.tsx';
import { Back, Field, IconButton, plural } from '../parts/section.tsx';
import { attempt } from '../parts/toast.tsx';
import { go, href } from '../router.ts';
import { AgentForm } from './form.tsx';
import { AgentToolsPart } from './ticks.tsx';

/** The agents: created, cloned, deleted; and one of them with its instructions and tools. */
export function Page({ rest: [name] }: PageProps) {
  const { data, problem } = useLive(['agents', 'tools'], () => rest.get('/api/agents'));
  const known = data.value;
  const chosen = known?.agents.find((one) => one.name === name);
  if (chosen) return <OneAgent key={chosen.name} agent={chosen} />;
  if (name !== undefined && known) {
    return (
      <Sheet title="Agents">
        <Empty icon="agent" title="There is no such agent">
          <a href={href('agents')}>All agents</a>
        </Empty>
      </Sheet>
    );
  }
  return <AgentList agents={known?.agents ?? []} byDefault={known?.default ?? ''} problem={problem.value} />;
}

/** What the dialog makes: a new agent, or a copy of this one. */
type Making = { copyOf: string } | undefined;

function AgentList({ agents, byDefault, problem }: { agents: AgentView[]; byDefault: string; problem: string }) {
  const making = useSignal<Making>(undefined);
  const isOpen = making.value !== undefined;
  return (
    <Sheet
      title="Agents"
      text="An agent has its instructions, its model and its tools. The chat lets you choose one."
      actions={
        <button type="button" class="main" onClick={() => (making.value = { copyOf: '' })}>
          <Icon name="plus" />
          New agent
        </button>
      }
    >
      <Problem text={problem} />
      <List label="Agents">
        {agents.map((agent) => (
          <Row
            key={agent.name}
            href={href('agents', agent.name)}
            title={
              <>
                {agent.name} {agent.name === byDefault && <Badge kind="good">default</Badge>}{' '}
                {agent.kept === 'built_in' && <Badge>built-in</Badge>}
                {agent.kept === 'settings' && <Badge>settings file</Badge>}
              </>
            }
            text={<span class="one-line">{agent.description || agent.instructions}</span>}
            side={plural(agent.tool_count, 'tool')}
            actions={
              <>
                <IconButton
                  icon="copy"
                  label={`Clone ${agent.name}`}
                  onClick={() => (making.value = { copyOf: agent.name })}
                />
                {agent.kept === 'store' && (
                  <IconButton icon="trash" label={`Delete ${agent.name}`} onClick={() => void remove(agent.name)} />
                )}
              </>
            }
          />
        ))}
      </List>
      <Dialog
        title={making.value?.copyOf ? `Clone ${making.value.copyOf}` : 'New agent'}
        isOpen={isOpen}
        onClose={() => (making.value = undefined)}
      >
        {making.value && <NameForm copyOf={making.value.copyOf} onDone={() => (making.value = undefined)} />}
      </Dialog>
    </Sheet>
  );
}

function NameForm({ copyOf, onDone }: { copyOf: string; onDone: () => void }) {
  const name = useSignal(copyOf ? `${copyOf} 2` : '');
  const { problem, attempt } = useFormWork();
  const make = async (event: Event) => {
    event.preventDefault();
    const body = { name: name.value.trim() };
    const isMade = await attempt(() =>
      copyOf
        ? rest.post('/api/agents/{name}/clone', { path: { name: copyOf }, body })
        : rest.post('/api/agents', { body }),
    );
    if (!isMade) return;
    onDone();
    go('agents', [body.name]);
  };
  return (
    <form class="fields" onSubmit={(event) => void make(event)}>
      <Field label="Name">
        {(id) => (
          <input
            id={id}
            type="text"
            maxLength={100}
            required
            value={name.value}
            onInput={(event) => (name.value = event.currentTarget.value)}
          />
        )}
      </Field>
      <Problem text={problem.value} />
      <footer class="buttons">
        <button type="button" onClick={onDone}>
          Cancel
        </button>
        <button type="submit" class="main" disabled={!name.value.trim()}>
          {copyOf ? 'Clone' : 'Create'}
        </button>
      </footer>
    </form>
  );
}

async function remove(name: string): Promise<void> {
  const text = 'Its sessions go on with the built-in agent.';
  if (!(await confirm(`Delete ${name}?`, text, 'Delete'))) return;
  const isDone = await attempt(() => rest.delete('/api/agents/{name}', { path: { name } }), `${name} is deleted.`);
  if (isDone) go('agents');
}

function OneAgent({ agent }: { agent: AgentView }) {
  const note = {
    settings: 'It is in the settings file and is changed there. Clone it to change a copy here.',
    built_in: 'It is built-in and keeps its name.',
    store: '',
  }[agent.kept];
  return (
    <>
      <Back href={href('agents')}>Agents</Back>
      <Sheet
        title={agent.name}
        text={note}
        actions={
          agent.kept === 'store' && (
            <button type="button" class="danger" onClick={() => void remove(agent.name)}>
              Delete
            </button>
          )
        }
      >
        <AgentForm agent={agent} />
        <AgentToolsPart agent={agent} />
      </Sheet>
    </>
  );
}
