import { signal } from '@preact/signals';
import { memo } from 'preact/compat';
import { useEffect } from 'preact/hooks';
import { isAdmin } from '../gateway/account.ts';
import { isSwitchedOff, readSwitches, switchTool } from '../gateway/switches.ts';
import { duration } from '../parts/ago.tsx';
import { asText, Code } from '../parts/code.tsx';
import { Icon, type IconName } from '../parts/icon.tsx';
import { showInvisible } from '../parts/invisible.ts';
import { attempt } from '../parts/toast.tsx';
import { QuestionCard } from '../questions/card.tsx';
import { openQuestions } from '../questions/open.ts';
import { href } from '../router.ts';
import { Files } from './files.tsx';
import { argumentsThatRan, brief, type CallView, readEnvelope } from './view.ts';

const KEY = 'handspan.calls';

/** The tool by which an agent asks another one, which works in a chat of its own. */
const ASK_AGENT = 'ask_agent';

/** Whether calls are shown with their arguments and results; one choice for all of them, remembered. */
export const isDetailed = signal(localStorage.getItem(KEY) === 'detailed');

/** Calls that a person opened or closed, by id: they stay so on the way to another page and back. */
const opened = signal<Record<string, boolean>>({});

export function setDetailed(value: boolean): void {
  isDetailed.value = value;
  localStorage.setItem(KEY, value ? 'detailed' : 'compact');
}

const WORDS = { writing: 'preparing', running: 'running', waiting: 'waits', success: 'done', error: 'failed' };
const PLACES: Record<string, string> = { builtin: 'gateway', browser: 'browser', remote: 'this chat' };

function iconOf(origin: string): IconName {
  if (/^(device|remote|browser)/.test(origin)) return 'device';
  return origin.startsWith('mcp') ? 'mcp' : 'tool';
}

/** Where a call runs, in words: `device(phone)` is `phone`. */
function placeOf(origin: string): string {
  const [, kind = '', name = ''] = /^(\w*)(?:\((.*)\))?$/.exec(origin) ?? [];
  return PLACES[kind] ?? name ?? kind;
}

/** One call: a line, or with all details. Images are always shown. */
export const CallBlock = memo(function CallBlock({ call }: { call: CallView }) {
  const showsAll = opened.value[call.id] ?? isDetailed.value;
  const { error } = call.envelope ? readEnvelope(call.envelope) : {};
  return (
    <div class={`call ${call.state}`}>
      <button
        type="button"
        class="call-line"
        aria-expanded={showsAll}
        onClick={() => {
          opened.value = { ...opened.value, [call.id]: !showsAll };
        }}
      >
        <Icon name={iconOf(call.origin)} />
        <span class="call-name">{call.tool}</span>
        {call.origin && <span class="call-where">{placeOf(call.origin)}</span>}
        <span class="call-progress">
          {error ??
            (lastLine(call.envelope ? '' : call.progress) ||
              (call.state !== 'writing' && brief(argumentsThatRan(call))))}
        </span>
        <span class="call-state">{WORDS[call.state]}</span>
        {call.duration !== undefined && <span class="call-time">{duration(call.duration)}</span>}
        <Icon name="chevron" class="turns" />
      </button>
      {showsAll && <CallDetails call={call} />}
      {!call.envelope && <CallQuestions id={call.id} />}
      {call.files && <Files files={call.files} />}
    </div>
  );
});

/** What a person is asked before this call goes on. */
function CallQuestions({ id }: { id: string }) {
  return (
    <>
      {openQuestions.value
        .filter(({ call_id: call }) => call === id)
        .map((question) => (
          <QuestionCard key={question.id} question={question} />
        ))}
    </>
  );
}

function CallDetails({ call }: { call: CallView }) {
  const { value, error, code, notice } = call.envelope ? readEnvelope(call.envelope) : {};
  return (
    <div class="call-details">
      <h3>Arguments</h3>
      <Code text={pretty(argumentsThatRan(call))} label="Copy the arguments" />
      {call.progress && !call.envelope && (
        <>
          <h3>So far</h3>
          <Code text={call.progress} label="Copy what arrived" />
        </>
      )}
      {error !== undefined && (
        <p class="problem">
          <Icon name="alert" />
          <span>
            {error} <small>({code})</small>
          </span>
        </p>
      )}
      {notice && <p class="muted">{notice}</p>}
      {value !== undefined && value !== null && (
        <>
          <h3>Result</h3>
          <Code text={asText(value)} label="Copy the result" />
        </>
      )}
      <p class="call-links">
        {call.tool === ASK_AGENT && call.state !== 'writing' && (
          <a href={href('chat', `child-${call.id}`)}>What that agent does</a>
        )}
        <a href={href('tools', call.tool)}>About this tool</a>
        {call.state !== 'writing' && <a href={href('journal', 'calls', call.id)}>In the journal</a>}
        {isAdmin() && <SwitchLink tool={call.tool} />}
      </p>
    </div>
  );
}

function SwitchLink({ tool }: { tool: string }) {
  useEffect(readSwitches, []);
  const isOff = isSwitchedOff(tool);
  const turn = () => attempt(() => switchTool(tool, isOff), `${tool} is ${isOff ? 'on again' : 'off'} for all agents.`);
  return (
    <button type="button" class="as-link" onClick={() => void turn()}>
      {isOff ? 'Switch it on' : 'Switch it off'}
    </button>
  );
}

function lastLine(text = ''): string {
  return text.trimEnd().split('\n').at(-1) ?? '';
}

function pretty(json: string): string {
  try {
    return asText(JSON.parse(json || '{}'));
  } catch {
    return showInvisible(json);
  }
}
