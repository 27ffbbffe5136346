import type { FailedCall, SucceededCall } from 'handspan/rest';
import { Files } from '../chat/files.tsx';
import { useLive } from '../gateway/live.ts';
import { rest } from '../gateway/rest.ts';
import { Ago, duration } from '../parts/ago.tsx';
import { asText, Code } from '../parts/code.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { Problem } from '../parts/empty.tsx';
import { Facts, originTitle } from '../parts/section.tsx';
import { href } from '../router.ts';
import { CallStatus } from './call-list.tsx';

/** All that is recorded of one call. */
export function CallDialog({ id, onClose }: { id: string | undefined; onClose: () => void }) {
  return (
    <Dialog title="Call" isOpen={id !== undefined} onClose={onClose}>
      {id !== undefined && <CallRecord key={id} id={id} />}
    </Dialog>
  );
}

/** A session by its name, where it has one. */
function SessionLink({ id }: { id: string }) {
  const { data } = useLive(
    ['sessions'],
    () => rest.get('/api/sessions/{session_id}', { path: { session_id: id } }),
    id,
  );
  return <a href={href('chat', id)}>{data.value?.name || 'its session'}</a>;
}

function CallRecord({ id }: { id: string }) {
  const { data, problem } = useLive(['calls'], () => rest.get('/api/calls/{call_id}', { path: { call_id: id } }));
  const call = data.value;
  if (!call) return <Problem text={problem.value} />;
  return (
    <>
      <Facts
        facts={[
          ['Tool', <a href={href('tools', call.tool)}>{call.tool}</a>],
          ['From', call.origin ? originTitle(call.origin) : 'no such tool'],
          ['Status', <CallStatus status={call.status} />],
          ['Began', <Ago at={call.at} />],
          ['Took', call.state === 'done' ? duration(call.duration) : ''],
          ['Waited for a person', call.waited ? duration(call.waited) : ''],
          ['Agent', call.agent],
          ['Session', call.session ? <SessionLink id={call.session} /> : 'none'],
          ['Id', <code>{call.id}</code>],
        ]}
      />
      <h3>Arguments</h3>
      <Code text={asText(call.arguments)} label="Copy the arguments" />
      <h3>Result</h3>
      {call.result ? <Envelope result={call.result} call={call.id} /> : <p class="muted">It has none yet.</p>}
      {call.true_result && (
        <>
          <h3>The tool’s own result</h3>
          <Envelope result={call.true_result} />
        </>
      )}
      {call.notes.map(({ at, text }) => (
        <p key={at} class="muted">
          <Ago at={at} />: {text}
        </p>
      ))}
    </>
  );
}

interface EnvelopeProps {
  result: SucceededCall | FailedCall;
  /** The call whose files these are; without it they are not shown. */
  call?: string;
}

function Envelope({ result, call }: EnvelopeProps) {
  if (result.status === 'error') return <Problem text={`${result.message} (${result.code})`} />;
  const files = (result.attachments ?? []).map(({ kind, name }, index) => {
    const url = rest.url(`/api/calls/${encodeURIComponent(call ?? '')}/files/${index}`);
    return { kind: String(kind), name: String(name ?? ''), url };
  });
  return (
    <>
      <Code text={asText(result.result)} label="Copy the result" />
      {result.notice && <p class="muted">{result.notice}</p>}
      {call && <Files files={files} />}
    </>
  );
}
