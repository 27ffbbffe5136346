import { useSignal } from '@preact/signals';
import type { ToolView } from 'handspan/rest';
import { useRef } from 'preact/hooks';
import { isAdmin } from '../gateway/account.ts';
import { useLive } from '../gateway/live.ts';
import { rest } from '../gateway/rest.ts';
import type { PageProps } from '../pages.ts';
import { Empty, Problem } from '../parts/empty.tsx';
import { Badge, List, Row, Search, Sheet, Switch } from '../parts/list.tsx';
import { Choose, count, groupBy, originTitle, Section } from '../parts/section.tsx';
import { attempt } from '../parts/toast.tsx';
import { href } from '../router.ts';
import { ToolDetails } from './details.tsx';

/** Every tool: where it comes from, who can call it, what it costs; and one of them with all its details. */
export function Page({ rest: [name] }: PageProps) {
  const { data, problem, reload } = useLive(['tools', 'agents', 'devices'], () => rest.get('/api/tools'));
  const known = data.value?.tools;
  if (name === undefined) return <ToolList tools={known} problem={problem.value} reload={reload} />;
  const tool = known?.find((one) => one.name === name);
  if (tool) return <ToolDetails key={name} tool={tool} side={<ToolSwitch tool={tool} reload={reload} />} />;
  return (
    <Sheet title={name}>
      <Problem text={problem.value} />
      {known && <Empty icon="tool" title="There is no such tool now" text="Its device or server may be gone." />}
    </Sheet>
  );
}

interface ListProps {
  tools: ToolView[] | undefined;
  problem: string;
  reload: () => Promise<void>;
}

function ToolList({ tools = [], problem, reload }: ListProps) {
  const wanted = useSignal('');
  const agent = useSignal('');
  const agents = useLive(['agents'], () => rest.get('/api/agents')).data.value;
  const switches = useLive(['tools'], () => rest.get('/api/switches'));
  const reloadAll = async () => {
    await Promise.all([reload(), switches.reload()]);
  };
  const read = useLive(
    ['tools', 'agents'],
    () => rest.get('/api/tools/cost', { query: { agent: agent.value } }),
    agent.value,
  );
  const last = useRef(read.data.value);
  last.current = read.data.value ?? last.current;
  const costs = last.current;
  const tokens = new Map(costs?.tools.map((one) => [one.name, one.tokens]));
  const search = wanted.value.toLowerCase();
  const shown = tools.filter(({ name, description }) => `${name} ${description}`.toLowerCase().includes(search));
  // The rows are drawn when their costs are known: what is added later would move a switch from under the pointer.
  const isReady = costs !== undefined || read.problem.value !== '';
  const text = costs
    ? `${costs.agent} can use ${costs.tools.length} of ${tools.length}. ` +
      `They take about ${count(costs.tokens_shown)} tokens of each request.`
    : '\u00a0';
  return (
    <Sheet title="Tools" text={text}>
      <Problem text={problem} />
      <div class="filters">
        <Search label="Search tools" value={wanted.value} onInput={(given) => (wanted.value = given)} />
        <Choose
          label="Cost for"
          value={agent.value || (agents?.default ?? '')}
          options={agents?.agents.map(({ name }) => name) ?? []}
          onChange={(name) => (agent.value = name)}
        />
      </div>
      {shown.length === 0 && tools.length > 0 && <Empty icon="search" title="No tool has these words" />}
      {groupBy(isReady ? shown : [], originOf).map(([origin, group]) => (
        <Section
          key={origin}
          title={originTitle(origin)}
          side={<OriginSwitch origin={origin} off={switches.data.value} reload={reloadAll} />}
        >
          <List label={originTitle(origin)}>
            {group.map((tool) => (
              <ToolRow
                key={`${tool.name} ${tool.scope.id}`}
                tool={tool}
                tokens={tokens.get(tool.name)}
                reload={reloadAll}
              />
            ))}
          </List>
        </Section>
      ))}
    </Sheet>
  );
}

function originOf({ origin: { kind, name } }: ToolView): string {
  return name ? `${kind}(${name})` : kind;
}

function ToolRow({
  tool,
  tokens,
  reload,
}: {
  tool: ToolView;
  tokens: number | undefined;
  reload: () => Promise<void>;
}) {
  return (
    <Row
      href={href('tools', tool.name)}
      title={
        <>
          {tool.name} <Marks tool={tool} />
        </>
      }
      text={<span class="one-line">{tool.description}</span>}
      side={tokens !== undefined && <span title="Tokens in each request, about">{count(tokens)} tokens</span>}
      actions={<ToolSwitch tool={tool} reload={reload} />}
    />
  );
}

function Marks({ tool }: { tool: ToolView }) {
  return (
    <>
      {tool.internal && <Badge>hidden until a skill names it</Badge>}
      {tool.definition.startsWith('changed') && <Badge kind="waits">changed</Badge>}
      {tool.definition === 'new' && <Badge kind="waits">new</Badge>}
      {tool.agents.length === 0 && tool.enabled && !tool.internal && <Badge kind="waits">no agent has it</Badge>}
    </>
  );
}

function ToolSwitch({ tool, reload }: { tool: ToolView; reload: () => Promise<void> }) {
  const isOwn = tool.disabled_by === null || tool.disabled_by === tool.name;
  const label = isOwn ? `${tool.name} is on` : `${tool.name} is switched off by ${tool.disabled_by}`;
  return (
    <Switch
      label={label}
      isOn={tool.enabled}
      isDisabled={!isOwn || !isAdmin()}
      onChange={(isOn) => switchTools(tool.name, isOn, reload)}
    />
  );
}

function OriginSwitch(props: {
  origin: string;
  off: { disabled: string[]; by_settings: string[] } | undefined;
  reload: () => Promise<void>;
}) {
  const pattern = `origin:${props.origin}`;
  const isFixed = props.off?.by_settings.includes(pattern) ?? false;
  return (
    <Switch
      label={`All of ${originTitle(props.origin)}`}
      isOn={!isFixed && !(props.off?.disabled.includes(pattern) ?? false)}
      isDisabled={isFixed || !isAdmin()}
      onChange={(isOn) => switchTools(pattern, isOn, props.reload)}
    />
  );
}

async function switchTools(pattern: string, isOn: boolean, reload: () => Promise<void>): Promise<void> {
  await attempt(() => rest.post(isOn ? '/api/switches/enable' : '/api/switches/disable', { body: { pattern } }));
  await reload();
}
