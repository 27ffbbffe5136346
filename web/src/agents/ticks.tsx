import { useSignal } from '@preact/signals';
import type { AgentView, Checkbox } from 'handspan/rest';
import { useLive } from '../gateway/live.ts';
import { rest } from '../gateway/rest.ts';
import { Empty, Problem } from '../parts/empty.tsx';
import { Badge, Search } from '../parts/list.tsx';
import { groupBy, originTitle, Section } from '../parts/section.tsx';
import { attempt } from '../parts/toast.tsx';
import { useWanted } from '../parts/wanted.ts';

/** The tools of an agent as checkboxes: name and description, grouped by origin. A tick counts at once. */
export function AgentToolsPart({ agent }: { agent: AgentView }) {
  const wanted = useSignal('');
  const path = { name: agent.name };
  const { data, problem, reload } = useLive(['agents', 'tools', 'devices'], () =>
    rest.get('/api/agents/{name}/tools', { path }),
  );
  const tools = data.value?.tools ?? [];
  const search = wanted.value.toLowerCase();
  const shown = tools.filter(({ name, description }) => `${name} ${description}`.toLowerCase().includes(search));
  const tick = async (names: string[], isOn: boolean) => {
    const body = isOn ? { on: names } : { off: names };
    await attempt(() => rest.patch('/api/agents/{name}/tools', { path, body }));
    await reload();
  };
  const isFixed = agent.kept === 'settings';
  const usable = tools.filter((one) => !(one.unusable || one.refused || one.disabled_by));
  const selected = usable.filter((one) => one.selected).length;
  return (
    <Section title="Tools" side={<small>{`${selected} of ${usable.length}`}</small>}>
      <Problem text={problem.value} />
      <div class="filters">
        <Search label="Search tools" value={wanted.value} onInput={(text) => (wanted.value = text)} />
      </div>
      {tools.length > 0 && shown.length === 0 && <Empty icon="search" title="No tool has these words" />}
      {groupBy(shown, ({ origin }) => origin).map(([origin, group]) => (
        <fieldset key={origin} class="ticks" disabled={isFixed}>
          <legend>{originTitle(origin)}</legend>
          <Everything origin={origin} group={group} tick={tick} />
          {group.map((tool) => (
            <Tick key={tool.name} tool={tool} onChange={(isOn) => tick([tool.name], isOn)} />
          ))}
        </fieldset>
      ))}
    </Section>
  );
}

interface EverythingProps {
  origin: string;
  group: Checkbox[];
  tick: (names: string[], isOn: boolean) => Promise<void>;
}

function Everything({ origin, group, tick }: EverythingProps) {
  const names = group.map(({ name }) => name);
  const isAll = group.every(({ selected }) => selected);
  return (
    <button
      type="button"
      class="everything"
      aria-label={`${isAll ? 'Untick' : 'Tick'} all of ${originTitle(origin)}`}
      onClick={() => void tick(names, !isAll)}
    >
      {isAll ? 'None' : 'All'}
    </button>
  );
}

function Tick({ tool, onChange }: { tool: Checkbox; onChange: (isOn: boolean) => Promise<void> }) {
  const { name, description, permissions } = tool;
  const [isOn, turn] = useWanted(tool.selected, onChange);
  return (
    <label class="check">
      <input type="checkbox" checked={isOn} onChange={(event) => turn(event.currentTarget.checked)} />
      <span>
        {name} {tool.refused && <Badge kind="bad">its mode refuses it</Badge>}{' '}
        {tool.only_reads && <Badge kind="waits">only calls that read</Badge>}{' '}
        {tool.asks && !tool.refused && <Badge kind="waits">asks first</Badge>}{' '}
        {permissions.length > 0 && <Badge kind="waits">{`needs ${permissions.join(', ')}`}</Badge>}{' '}
        {tool.disabled_by && <Badge>{`off: ${tool.disabled_by}`}</Badge>} {tool.unusable && <Badge>not usable</Badge>}
        <small class="one-line">{description}</small>
        {tool.unusable && <small>{`Not counted: ${tool.unusable}.`}</small>}
      </span>
    </label>
  );
}
