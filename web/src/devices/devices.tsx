import { useSignal } from '@preact/signals';
import type { DeviceView, MadeCode } from 'handspan/rest';
import { useEffect } from 'preact/hooks';
import { isAdmin } from '../gateway/account.ts';
import { useLive } from '../gateway/live.ts';
import { messageOf, rest } from '../gateway/rest.ts';
import type { PageProps } from '../pages.ts';
import { Ago } from '../parts/ago.tsx';
import { Code } from '../parts/code.tsx';
import { confirm } from '../parts/confirm.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { Empty, Problem } from '../parts/empty.tsx';
import { useFormWork } from '../parts/form-work.ts';
import { Icon } from '../parts/icon.tsx';
import { Badge, List, Row, Sheet } from '../parts/list.tsx';
import { Field, groupBy, IconButton, plural } from '../parts/section.tsx';
import { attempt, toast } from '../parts/toast.tsx';
import { go, href } from '../router.ts';
import { Notifications } from './notifications.tsx';

/** The devices: connected and known, with their tools; a new one is paired by a QR code. */
export function Page({ rest: [what] }: PageProps) {
  const { data, problem } = useLive(['devices', 'tools'], () => rest.get('/api/devices'));
  const tools = useLive(['devices', 'tools'], () => rest.get('/api/tools')).data.value?.tools ?? [];
  const lent = tools.filter(({ origin }) => origin.kind === 'device');
  const usable = new Map(groupBy(lent, ({ origin }) => origin.name).map(([label, of]) => [label, of.map(nameOf)]));
  const isPairing = what === 'pair' && isAdmin();
  const stopPairing = () => go('devices', [], { replace: true });
  const renamed = useSignal<DeviceView | undefined>(undefined);
  const devices = data.value?.devices;
  const pair = isAdmin() && (
    <button type="button" class="main" onClick={() => go('devices', ['pair'])}>
      <Icon name="plus" />
      Pair a device
    </button>
  );
  return (
    <Sheet
      title="Devices"
      text="Phones, browsers, computers and apps that lend their tools."
      actions={devices?.length ? pair : undefined}
    >
      <Problem text={problem.value} />
      {devices?.length === 0 && (
        <Empty
          icon="device"
          title="No device yet"
          text="Scan a code with your phone, and its camera and location are tools. The phone needs no app."
        >
          {pair}
        </Empty>
      )}
      {devices && devices.length > 0 && (
        <List label="Devices">
          {devices.map((device) => (
            <DeviceRow
              key={device.id}
              device={device}
              usable={usable.get(device.connected_as || device.label) ?? []}
              onRename={() => (renamed.value = device)}
            />
          ))}
        </List>
      )}
      <Notifications />
      <Dialog title="Pair a device" isOpen={isPairing} onClose={stopPairing}>
        {isPairing && devices && <PairPart known={devices.length} onPaired={stopPairing} />}
      </Dialog>
      <Dialog
        title={`Rename ${renamed.value?.label ?? ''}`}
        isOpen={renamed.value !== undefined}
        onClose={() => (renamed.value = undefined)}
      >
        {renamed.value && <RenameForm device={renamed.value} onDone={() => (renamed.value = undefined)} />}
      </Dialog>
    </Sheet>
  );
}

function nameOf({ name }: { name: string }): string {
  return name;
}

interface DeviceProps {
  device: DeviceView;
  /** Its tools as agents call them; none while it is not connected. */
  usable: string[];
  onRename: () => void;
}

function DeviceRow({ device, usable, onRename }: DeviceProps) {
  const { label, name, connected, tools, changed } = device;
  const path = { label };
  // A device that was renamed keeps its label, and its tools their names, until it connects again.
  const state = device.connected_as ? `connected as ${device.connected_as}` : 'connected';
  const revoke = async () => {
    const text =
      'Its token is revoked and its tools go. It has to be paired again. An admin token stays valid, and so does one that lets in other devices.';
    if (!(await confirm(`Revoke ${label}?`, text, 'Revoke'))) return;
    await attempt(async () => {
      const { still_valid } = await rest.delete('/api/devices/{label}', { path });
      toast(
        still_valid ? `${label} is forgotten, and its token is still valid. ${still_valid}` : `${label} is revoked.`,
      );
    });
  };
  return (
    <Row
      title={
        <>
          {label} {name && name !== label && <small>{name}</small>}{' '}
          {changed.length > 0 && <Badge kind="waits">{`changed: ${changed.join(', ')}`}</Badge>}
        </>
      }
      text={
        <>
          <About device={device} />
          {tools.length > 0 && (
            <details>
              <summary>{plural(tools.length, 'tool')}</summary>
              {usable.map((tool) => (
                <a key={tool} class="line" href={href('tools', tool)}>
                  {tool}
                </a>
              ))}
              {usable.length === 0 && tools.join(', ')}
            </details>
          )}
        </>
      }
      side={connected ? <Badge kind="good">{state}</Badge> : <Ago at={device.last_seen} />}
      actions={
        <>
          {changed.length > 0 && (
            <IconButton
              icon="check"
              label={`I have seen the changes of ${label}`}
              onClick={() => void attempt(() => rest.post('/api/devices/{label}/looked', { path }))}
            />
          )}
          <IconButton icon="edit" label={`Rename ${label}`} onClick={onRename} />
          <IconButton icon="trash" label={`Revoke ${label}`} onClick={() => void revoke()} />
        </>
      }
    />
  );
}

/** What a device says of itself, and what the gateway does not let it have. Of an app behind a bridge: what the app says. */
function About({ device: { description, scopes, notes, notice, refused } }: { device: DeviceView }) {
  const refusals = (refused ?? []).map((one) => `The gateway does not take its tool '${one.name}': ${one.reason}`);
  return (
    <>
      {description && <span class="line">{description}</span>}
      {scopes && scopes.length > 0 && (
        <span class="line">
          {'Has '}
          {scopes.map((one, index) => (
            <span key={one.name} title={one.description}>
              {index > 0 && ', '}
              {one.name}
              {one.description && ` (${one.description})`}
            </span>
          ))}
        </span>
      )}
      {[...(notes ?? []), ...(notice ? [notice] : []), ...refusals].map((note) => (
        <span key={note} class="line note">
          <Icon name="alert" /> {note}
        </span>
      ))}
    </>
  );
}

function RenameForm({ device, onDone }: { device: DeviceView; onDone: () => void }) {
  const label = useSignal(device.label);
  const { problem, attempt } = useFormWork();
  const save = async (event: Event) => {
    event.preventDefault();
    const given = { path: { label: device.label }, body: { label: label.value } };
    if (await attempt(() => rest.put('/api/devices/{label}', given))) onDone();
  };
  return (
    <form class="fields" onSubmit={(event) => void save(event)}>
      <Field
        label="Label"
        hint="The prefix of its tools from its next connection on: lower case, digits, single '_', a letter first."
      >
        {(id, hint) => (
          <input
            id={id}
            type="text"
            required
            maxLength={24}
            pattern="[a-z](_?[a-z0-9]){0,23}"
            aria-describedby={hint}
            value={label.value}
            onInput={(event) => (label.value = event.currentTarget.value)}
          />
        )}
      </Field>
      <Problem text={problem.value} />
      <footer class="buttons">
        <button type="button" onClick={onDone}>
          Cancel
        </button>
        <button type="submit" class="main">
          Rename
        </button>
      </footer>
    </form>
  );
}

/** A code for one device. The dialog closes when a device has come. */
function PairPart({ known, onPaired }: { known: number; onPaired: () => void }) {
  const made = useSignal<MadeCode | undefined>(undefined);
  const problem = useSignal('');
  const before = useSignal(known).value;
  useEffect(() => {
    rest.post('/api/pairing', { body: {} }).then(
      (code) => {
        made.value = code;
      },
      (error: unknown) => {
        problem.value = messageOf(error);
      },
    );
  }, [made, problem]);
  useEffect(() => {
    if (known > before) onPaired();
  }, [known, before, onPaired]);
  if (!made.value) return <Problem text={problem.value} />;
  const { code, link, qr, expires_in, scopes } = made.value;
  return (
    <>
      {qr ? (
        <>
          <p>Scan this with the camera of your phone.</p>
          <img class="qr" src={`data:image/svg+xml,${encodeURIComponent(qr)}`} alt="QR code with the link below" />
        </>
      ) : (
        <p>
          Only this computer reaches the gateway. To let a phone in, start it with{' '}
          <code>handspan serve --lan --tls</code> and come back. On this computer, a browser or a program can use:
        </p>
      )}
      <Code text={link} label="Copy the link" />
      <p>
        Or enter the code <b class="mono">{code}</b>. It works once, for {Math.round(expires_in / 60)} minutes, and
        gives a token with the scope {scopes.join(', ')}: it can be a device and nothing else.
      </p>
    </>
  );
}
