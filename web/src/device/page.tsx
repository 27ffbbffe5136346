import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { Problem } from '../parts/empty.tsx';
import { Icon } from '../parts/icon.tsx';
import { Badge, List, Row, Switch } from '../parts/list.tsx';
import { type PhoneQuestion, phone, type ShownCall } from './phone.ts';
import type { ScannedCode } from './scanned.ts';
import { TOOLS, whyNot } from './tools.ts';
import { Trust } from './trust.tsx';

/** The phone's own page: pair once, then its tools are the agent's. */
export function PhonePage() {
  const { token } = phone.settings.value;
  const scanned = phone.scanned.value;
  return (
    <main class="phone">
      <header>
        <h1>This phone</h1>
        {token && !scanned && <Status />}
      </header>
      <Problem text={phone.problem.value} />
      <Questions />
      {!isSecureContext && <Trust />}
      {scanned ? <AppOrBrowser scanned={scanned} /> : token ? <Offered /> : <PairForm />}
      {isSecureContext && <Trust />}
    </main>
  );
}

const WORDS = {
  online: ['good', 'Connected'],
  connecting: ['waits', 'Connecting…'],
  waiting: ['waits', 'Reconnecting…'],
  closed: ['bad', 'Not connected'],
} as const;

function Status() {
  const { status, reason } = phone.state.value;
  const [kind, word] = WORDS[status];
  return (
    <span role="status" title={reason}>
      <Badge kind={kind}>{word}</Badge>
    </span>
  );
}

/** The code works once, so the person says first who gets it. The page stays: no browser tells whether an app has opened. */
function AppOrBrowser({ scanned }: { scanned: ScannedCode }) {
  return (
    <section class="card">
      <h2>Pair the app or this browser?</h2>
      <p>The code works once. The app works without an open page; this browser needs no app.</p>
      <a class="button main" href={scanned.app}>
        Open in the Handspan app
      </a>
      <button type="button" onClick={() => phone.useBrowser(scanned)}>
        Use this browser
      </button>
      <p class="muted">If nothing opens, the app is not on this phone.</p>
    </section>
  );
}

function PairForm() {
  const code = useSignal('');
  const isBusy = useSignal(false);
  const onSubmit = async (event: Event) => {
    event.preventDefault();
    if (isBusy.value) return;
    isBusy.value = true;
    await phone.pair(code.value);
    isBusy.value = false;
  };
  return (
    <form class="card" onSubmit={onSubmit}>
      <p>
        Pair this phone once, and the agent can use its camera, its place and more, each only if you let it. No app is
        needed.
      </p>
      <label>
        Name
        <input
          value={phone.settings.value.label}
          maxLength={32}
          required
          onInput={(event) => phone.change({ label: event.currentTarget.value })}
        />
      </label>
      <label>
        Pairing code
        <input
          value={code.value}
          inputMode="numeric"
          autocomplete="one-time-code"
          placeholder="1234-5678-9012"
          required
          onInput={(event) => {
            code.value = event.currentTarget.value;
          }}
        />
      </label>
      <p class="muted">
        The page on your computer shows the code under Devices; so does <code>handspan pair</code>.
      </p>
      <button type="submit" class="main" aria-disabled={isBusy.value}>
        Pair
      </button>
    </form>
  );
}

function Offered() {
  const { asks, label } = phone.settings.value;
  return (
    <>
      <Calls />
      <section>
        <h2>What the agent may use</h2>
        <List label="Tools of this phone">
          <Row
            title="Ask me first"
            text="Before the camera, the place, the microphone and the like."
            actions={<Switch label="Ask me first" isOn={asks} onChange={(isOn) => phone.change({ asks: isOn })} />}
          />
          {TOOLS.map((tool) => (
            <ToolRow key={tool.name} name={tool.name} text={tool.description} />
          ))}
        </List>
      </section>
      <p class="muted">
        The agent knows this phone as <strong>{label}</strong>. Keep this page open: the screen stays on while it is
        connected.
      </p>
      <button type="button" class="danger" onClick={() => phone.leave()}>
        Forget this gateway
      </button>
    </>
  );
}

function ToolRow({ name, text }: { name: string; text: string }) {
  const reason = whyNot(name);
  return (
    <Row
      title={
        <>
          <code>{name}</code> {reason && <Badge kind="waits">{reason}</Badge>}
        </>
      }
      text={text}
      actions={
        <Switch
          label={name}
          isOn={phone.isOffered(name)}
          isDisabled={Boolean(reason)}
          onChange={(isOn) => phone.setTool(name, isOn)}
        />
      }
    />
  );
}

function Calls() {
  if (phone.calls.value.length === 0) {
    return <p class="muted">Nothing was used yet. Ask the agent, for example: “take a photo with my phone”.</p>;
  }
  return (
    <section aria-live="polite">
      <h2>What was used</h2>
      <List label="Calls">
        {phone.calls.value.map((call) => (
          <CallRow key={call.id} call={call} />
        ))}
      </List>
    </section>
  );
}

const STATES = { runs: ['waits', 'runs'], done: ['good', 'done'], failed: ['bad', 'failed'] } as const;

function CallRow({ call }: { call: ShownCall }) {
  const [kind, word] = STATES[call.state];
  const time = call.milliseconds === undefined ? '' : ` · ${(call.milliseconds / 1000).toFixed(1)} s`;
  return (
    <Row
      title={
        <>
          <code>{call.tool}</code> {call.arguments && <span class="muted">{call.arguments}</span>}
        </>
      }
      text={call.text}
      side={
        <>
          {call.image && <img src={call.image} alt={`What ${call.tool} gave`} />}
          <Badge kind={kind}>{`${word}${time}`}</Badge>
        </>
      }
    />
  );
}

function Questions() {
  return (
    <div aria-live="assertive">
      {phone.questions.value.map((question) => (
        <QuestionCard key={`${question.tool} ${question.permission} ${question.arguments}`} question={question} />
      ))}
    </div>
  );
}

/** What a person calls the browser's permissions. */
const NAMES: Readonly<Record<string, string>> = {
  accelerometer: 'how this phone moves',
  camera: 'the camera',
  'clipboard-read': 'what you have copied',
  'clipboard-write': 'what you paste next',
  contacts: 'your contacts',
  geolocation: 'where this phone is',
  gyroscope: 'how this phone turns',
  microphone: 'the microphone',
  notifications: 'notifications',
};

function QuestionCard({ question }: { question: PhoneQuestion }) {
  const { tool, agent, kind, permission } = question;
  useEffect(() => {
    navigator.vibrate?.(200); // the person may not look at the screen
  }, []);
  return (
    <section class="card ask">
      <h2>
        <Icon name="shield" />
        {kind === 'tap' ? `Tap to let ${tool} open` : `May ${agent || 'the agent'} use ${tool}?`}
      </h2>
      {permission && <p>It needs: {NAMES[permission] ?? permission}.</p>}
      {question.arguments && <p class="muted">{question.arguments}</p>}
      <div class="buttons">
        <button type="button" onClick={() => question.answer(false)}>
          No
        </button>
        <button type="button" class="main" onClick={() => question.answer(true)}>
          {kind === 'tap' ? 'Go on' : 'Allow once'}
        </button>
      </div>
    </section>
  );
}
