import { useSignal } from '@preact/signals';
import type { McpServerView } from 'handspan/rest';
import { isAdmin } from '../gateway/account.ts';
import { useLive } from '../gateway/live.ts';
import { rest, slowRest } from '../gateway/rest.ts';
import type { PageProps } from '../pages.ts';
import { confirm } from '../parts/confirm.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { Empty, Problem } from '../parts/empty.tsx';
import { Icon } from '../parts/icon.tsx';
import { Badge, List, Row, Sheet, Switch } from '../parts/list.tsx';
import { Back, Facts, plural, Section } from '../parts/section.tsx';
import { attempt } from '../parts/toast.tsx';
import { href } from '../router.ts';
import { AddServer, Changes, LoginPart } from './server-parts.tsx';

/** The MCP servers: state and reason, added, tested, trusted, hidden; and one of them with its tools. */
export function Page({ rest: [name] }: PageProps) {
  const { data, problem, reload } = useLive(['tools'], () => rest.get('/api/mcp'));
  const servers = data.value?.servers;
  const chosen = servers?.find((one) => one.name === name);
  if (chosen) return <OneServer key={chosen.name} server={chosen} reload={reload} />;
  return <ServerList servers={servers} problem={problem.value} reload={reload} />;
}

interface ListProps {
  servers: McpServerView[] | undefined;
  problem: string;
  reload: () => Promise<void>;
}

function ServerList({ servers, problem, reload }: ListProps) {
  const isAdding = useSignal(false);
  const add = isAdmin() && (
    <button type="button" class="main" onClick={() => (isAdding.value = true)}>
      <Icon name="plus" />
      Add a server
    </button>
  );
  return (
    <Sheet
      title="MCP servers"
      text="Programs and addresses whose tools agents can use."
      actions={servers?.length ? add : undefined}
    >
      <Problem text={problem} />
      {servers?.length === 0 && (
        <Empty icon="mcp" title="No MCP server yet" text="Add one by its command line or its address.">
          {add}
        </Empty>
      )}
      {servers && servers.length > 0 && (
        <List label="MCP servers">
          {servers.map((server) => (
            <Row
              key={server.name}
              href={href('mcp', server.name)}
              title={
                <>
                  {server.name} {server.internal_only && <Badge>hidden</Badge>}{' '}
                  {server.waiting.length > 0 && <Badge kind="waits">{`${server.waiting.length} to look at`}</Badge>}
                </>
              }
              text={server.reason || server.where}
              side={<State server={server} />}
            />
          ))}
        </List>
      )}
      <Dialog title="Add an MCP server" isOpen={isAdding.value} onClose={() => (isAdding.value = false)}>
        {isAdding.value && (
          <AddServer
            onCancel={() => (isAdding.value = false)}
            onDone={async () => {
              isAdding.value = false;
              await reload();
            }}
          />
        )}
      </Dialog>
    </Sheet>
  );
}

function State({ server: { status, tools } }: { server: McpServerView }) {
  const kind = status === 'ready' ? 'good' : status === 'failed' ? 'bad' : 'waits';
  return (
    <>
      <Badge kind={kind}>{status}</Badge> {status === 'ready' && plural(tools.length, 'tool')}
    </>
  );
}

function OneServer({ server, reload }: { server: McpServerView; reload: () => Promise<void> }) {
  const { name, internal_only, trusted, can_change } = server;
  const isTesting = useSignal(false);
  const path = { name };
  const test = async () => {
    if (isTesting.value) return;
    isTesting.value = true;
    await attempt(() => slowRest.post('/api/mcp/{name}/test', { path }));
    await reload();
    isTesting.value = false;
  };
  const change = async (body: { internal_only?: boolean; trusted?: boolean }) => {
    await attempt(() => rest.patch('/api/mcp/{name}', { path, body }));
    await reload();
  };
  const remove = async () => {
    if (!(await confirm(`Remove ${name}?`, 'It is stopped, and its tools go.', 'Remove'))) return;
    await attempt(() => rest.delete('/api/mcp/{name}', { path }));
    location.hash = href('mcp');
    await reload();
  };
  return (
    <>
      <Back href={href('mcp')}>MCP servers</Back>
      <Sheet
        title={name}
        text={can_change ? '' : 'It is in the settings file and is changed there.'}
        actions={
          isAdmin() && (
            <>
              <button type="button" aria-disabled={isTesting.value} onClick={() => void test()}>
                {isTesting.value ? 'Testing…' : 'Test'}
              </button>
              {can_change && (
                <button type="button" class="danger" onClick={() => void remove()}>
                  Remove
                </button>
              )}
            </>
          )
        }
      >
        <Problem text={server.reason} />
        {server.problems.map((text) => (
          <Problem key={text} text={text} />
        ))}
        <Facts
          facts={[
            ['State', <State server={server} />],
            ['Reached by', <code>{server.where}</code>],
          ]}
        />
        <List label="Settings of this server">
          <Row
            title="Show its tools to agents"
            text="Hidden ones are there only while a skill names them."
            actions={
              <Switch
                label="Show its tools to agents"
                isOn={!internal_only}
                isDisabled={!can_change || !isAdmin()}
                onChange={(isOn) => change({ internal_only: !isOn })}
              />
            }
          />
          <Row
            title="Accept changed definitions without a question"
            actions={
              <Switch
                label="Accept changed definitions without a question"
                isOn={trusted}
                isDisabled={!can_change || !isAdmin()}
                onChange={(isOn) => change({ trusted: isOn })}
              />
            }
          />
        </List>
        {isAdmin() && server.waiting.length > 0 && <Changes name={name} reload={reload} />}
        {isAdmin() && /^https?:/.test(server.where) && <LoginPart name={name} reload={reload} />}
        {server.tools.length > 0 && (
          <Section title="Tools">
            <List label="Tools">
              {server.tools.map((tool) => (
                <Row key={tool} href={href('tools', tool)} title={tool} />
              ))}
            </List>
          </Section>
        )}
      </Sheet>
    </>
  );
}
