import type { SubscriptionView } from 'handspan/rest';
import { useLive } from '../gateway/live.ts';
import { rest } from '../gateway/rest.ts';
import { Ago } from '../parts/ago.tsx';
import { Problem } from '../parts/empty.tsx';
import { useFormWork } from '../parts/form-work.ts';
import { Badge, List, Row } from '../parts/list.tsx';
import { IconButton, Section } from '../parts/section.tsx';
import { attempt } from '../parts/toast.tsx';
import { subscribe, unsubscribe, whyNoPush } from '../push/push.ts';

/** The browsers that are told of questions and messages, and the button that adds this one. */
export function Notifications() {
  const { data, problem, reload } = useLive(['devices'], () => rest.get('/api/push'));
  const work = useFormWork();
  const found = data.value;
  if (!found) return <Problem text={problem.value} />;
  const reason = whyNoPush();
  const isHere = found.subscriptions.some(({ current }) => current);
  const add = async () => {
    if (await work.attempt(() => subscribe(found.public_key))) await reload();
  };
  return (
    <Section title="Notifications">
      <p class="muted">
        Browsers and phones that are told of questions and messages while no page is in view. A notification names the
        agent and the tool, and nothing else of the call.
      </p>
      <Problem text={problem.value || work.problem.value} />
      {found.subscriptions.length > 0 && (
        <List label="Notifications">
          {found.subscriptions.map((one) => (
            <SubscriptionRow key={one.id} subscription={one} onChange={reload} />
          ))}
        </List>
      )}
      {!isHere && reason && <p class="muted">{reason}</p>}
      {!isHere && !reason && (
        <button type="button" onClick={() => void add()}>
          Notify me here
        </button>
      )}
    </Section>
  );
}

function SubscriptionRow(props: { subscription: SubscriptionView; onChange: () => Promise<void> }) {
  const { id, label, host, last_success, current } = props.subscription;
  const name = label || host;
  const path = { subscription_id: id };
  const test = () => attempt(() => rest.post('/api/push/{subscription_id}/test', { path }), 'A notification was sent.');
  const remove = async () => {
    if (current) await unsubscribe().catch(() => undefined); // the gateway forgets it all the same
    await attempt(() => rest.delete('/api/push/{subscription_id}', { path }));
    await props.onChange();
  };
  return (
    <Row
      title={
        <>
          {name} {current && <Badge kind="good">this browser</Badge>}
        </>
      }
      text={`by ${host}`}
      side={last_success ? <Ago at={last_success} /> : 'not used yet'}
      actions={
        <>
          <IconButton icon="bell" label={`Send a test to ${name}`} onClick={() => void test()} />
          <IconButton icon="trash" label={`Notify ${name} no more`} onClick={() => void remove()} />
        </>
      }
    />
  );
}
