import { useSignal } from '@preact/signals';
import type { FailedCall, PendingCall, SucceededCall, ToolView } from 'handspan/rest';
import type { ComponentChildren } from 'preact';
import { useLive } from '../gateway/live.ts';
import { messageOf, rest, slowRest } from '../gateway/rest.ts';
import { Ago, duration } from '../parts/ago.tsx';
import { asText, Code } from '../parts/code.tsx';
import { Problem } from '../parts/empty.tsx';
import { Icon } from '../parts/icon.tsx';
import { Badge, List, Row, Sheet } from '../parts/list.tsx';
import { defaultsOf, type JsonObject, missingIn, SchemaForm } from '../parts/schema-form.tsx';
import { Back, Choose, Facts, originTitle, plural, Section } from '../parts/section.tsx';
import { href } from '../router.ts';

const APIS: Record<string, string> = {
  openai: 'OpenAI and most others',
  'openai-strict': 'OpenAI, strict',
  anthropic: 'Anthropic',
  gemini: 'Gemini',
  'gemini-parameters': 'Gemini, older form',
};

/** One tool: facts, a form to try it, why agents can use it, its last calls, its schema. */
export function ToolDetails({ tool, side }: { tool: ToolView; side: ComponentChildren }) {
  const { origin, scope, annotations } = tool;
  const effects = Object.entries(annotations).flatMap(([name, is]) => (is === true ? [name.replace('_', '-')] : []));
  return (
    <>
      <Back href={href('tools')}>Tools</Back>
      <Sheet title={tool.name} text={tool.description} actions={side}>
        <Facts
          facts={[
            ['From', originTitle(origin.name ? `${origin.kind}(${origin.name})` : origin.kind)],
            ['Seen by', scope.kind === 'global' ? 'every owner' : scope.kind === 'owner' ? 'you' : 'one session'],
            ['Agents that can call it', tool.agents.join(', ') || 'none'],
            ['Asks for', tool.permissions.join(', ') || 'nothing'],
            ['Effects', effects.join(', ') || 'changes things'],
            ['Time limit', tool.timeout === null ? 'none' : duration(tool.timeout)],
          ]}
        />
        <TryIt tool={tool} />
        <WhyPart tool={tool.name} />
        <LastCalls tool={tool.name} />
        <Losses tool={tool.name} />
        <Section title="Schema">
          <Code text={asText(tool.parameters)} label="Copy the schema" />
        </Section>
      </Sheet>
    </>
  );
}

function TryIt({ tool }: { tool: ToolView }) {
  const schema = tool.parameters as JsonObject;
  const args = useSignal(defaultsOf(schema));
  const outcome = useSignal<SucceededCall | FailedCall | PendingCall | undefined>(undefined);
  const problem = useSignal('');
  const isRunning = useSignal(false);
  const missing = missingIn(schema, args.value);
  const run = async (event: Event) => {
    event.preventDefault();
    if (isRunning.value) return;
    isRunning.value = true;
    problem.value = '';
    outcome.value = undefined;
    try {
      const path = { name: tool.name };
      outcome.value = await slowRest.post('/api/tools/{name}/call', { path, body: { args: args.value } });
    } catch (error) {
      problem.value = messageOf(error);
    }
    isRunning.value = false;
  };
  return (
    <Section title="Try it">
      <form class="card" onSubmit={(event) => void run(event)}>
        <SchemaForm schema={schema} value={args.value} onChange={(given) => (args.value = given)} />
        <footer class="buttons">
          {missing.length > 0 && <small>Needs {missing.join(', ')}</small>}
          <button type="submit" class="main" disabled={missing.length > 0} aria-disabled={isRunning.value}>
            {isRunning.value ? 'Running…' : 'Run'}
          </button>
        </footer>
        <div aria-live="polite">
          <Problem text={problem.value} />
          {outcome.value && <Outcome outcome={outcome.value} />}
        </div>
      </form>
    </Section>
  );
}

function Outcome({ outcome }: { outcome: SucceededCall | FailedCall | PendingCall }) {
  if (outcome.status === 'error') return <Problem text={`${outcome.message} (${outcome.code})`} />;
  if (outcome.status === 'success') {
    const files = outcome.attachments?.length ?? 0;
    return (
      <>
        <Code text={asText(outcome.result)} label="Copy the result" />
        {files > 0 && <p class="muted">{`It gave ${plural(files, 'file')}, too: open the call below to see them.`}</p>}
      </>
    );
  }
  return (
    <p>
      It waits for a person or a device. <a href={href('journal', 'calls', outcome.call_id)}>Its record</a> will have
      the result.
    </p>
  );
}

function WhyPart({ tool }: { tool: string }) {
  const agent = useSignal('');
  const agents = useLive(['agents'], () => rest.get('/api/agents')).data.value;
  const { data, problem } = useLive(
    ['tools', 'agents', 'devices'],
    () => rest.get('/api/tools/{name}/why', { path: { name: tool }, query: { agent: agent.value } }),
    agent.value,
  );
  const told = data.value;
  return (
    <Section
      title="Can an agent use it?"
      side={
        <Choose
          label="Agent"
          value={agent.value || (agents?.default ?? '')}
          options={agents?.agents.map(({ name }) => name) ?? []}
          onChange={(name) => (agent.value = name)}
        />
      }
    >
      <Problem text={problem.value} />
      {told && (
        <div class="card">
          <p>
            <Badge kind={told.usable ? 'good' : 'bad'}>{told.usable ? 'yes' : 'no'}</Badge> {told.agent}{' '}
            {told.usable ? 'can use it.' : 'can’t use it.'}
          </p>
          <ul class="reasons">
            {told.reasons.map(({ ok, text }) => (
              <li key={text} class={ok ? 'for' : 'against'}>
                <Icon name={ok ? 'check' : 'close'} />
                <span>
                  <span class="hidden">{ok ? 'For: ' : 'Against: '}</span>
                  {text}
                </span>
              </li>
            ))}
          </ul>
        </div>
      )}
    </Section>
  );
}

function LastCalls({ tool }: { tool: string }) {
  const { data, problem } = useLive(['calls'], () => rest.get('/api/calls', { query: { tool, limit: 5 } }));
  const calls = data.value?.calls;
  return (
    <Section title="Last calls" side={<a href={href('journal', 'calls')}>Journal</a>}>
      <Problem text={problem.value} />
      {calls?.length === 0 && <p class="muted">It was not called yet.</p>}
      {calls && calls.length > 0 && (
        <List label="Last calls">
          {calls.map((call) => (
            <Row
              key={call.id}
              href={href('journal', 'calls', call.id)}
              title={<Ago at={call.at} />}
              text={call.agent}
              side={
                <>
                  <Badge kind={call.status === 'success' ? 'good' : call.status === 'open' ? 'waits' : 'bad'}>
                    {call.status}
                  </Badge>{' '}
                  {duration(call.duration)}
                </>
              }
            />
          ))}
        </List>
      )}
    </Section>
  );
}

function Losses({ tool }: { tool: string }) {
  const { data, problem } = useLive([], () => rest.get('/api/tools/{name}/losses', { path: { name: tool } }));
  return (
    <Section title="What model APIs lose of it">
      <Problem text={problem.value} />
      <List label="What model APIs lose of it">
        {data.value?.apis.map(({ api, losses, refused }) => (
          <Row
            key={api}
            title={APIS[api] ?? api}
            text={refused || losses.map((one) => <span key={one} class="line">{`${one}.`}</span>)}
            side={
              <Badge kind={refused ? 'bad' : losses.length ? 'waits' : 'good'}>
                {refused ? 'not sent' : losses.length ? `${losses.length} in words only` : 'nothing'}
              </Badge>
            }
          />
        ))}
      </List>
    </Section>
  );
}
