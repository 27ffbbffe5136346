import { useSignal } from '@preact/signals';
import type { ScheduleRunView, ScheduleView } from 'handspan/rest';
import { useLive } from '../gateway/live.ts';
import { rest } from '../gateway/rest.ts';
import type { PageProps } from '../pages.ts';
import { Ago } from '../parts/ago.tsx';
import { confirm } from '../parts/confirm.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { Empty, Problem } from '../parts/empty.tsx';
import { Icon } from '../parts/icon.tsx';
import { Badge, List, Row, Sheet } from '../parts/list.tsx';
import { Back, Facts, Field, Section } from '../parts/section.tsx';
import { attempt } from '../parts/toast.tsx';
import { go, href } from '../router.ts';

/** What agents do by themselves: the schedules, and one of them with its next times and its runs. */
export function Page({ rest: [id] }: PageProps) {
  return id ? <OneSchedule key={id} id={id} /> : <ScheduleList />;
}

function ScheduleList() {
  const { data, problem, reload } = useLive(['schedules'], () => rest.get('/api/schedules'));
  const isAdding = useSignal(false);
  const schedules = data.value?.schedules;
  const add = (
    <button type="button" class="main" onClick={() => (isAdding.value = true)}>
      <Icon name="plus" />
      Add a schedule
    </button>
  );
  return (
    <Sheet
      title="Schedules"
      text="What agents are told by themselves, later or again and again."
      actions={schedules?.length ? add : undefined}
    >
      <Problem text={problem.value} />
      {schedules?.length === 0 && (
        <Empty icon="clock" title="No schedule yet" text="Ask for one in a chat, or add one here.">
          {add}
        </Empty>
      )}
      {schedules && schedules.length > 0 && (
        <List label="Schedules">
          {schedules.map((one) => (
            <Row
              key={one.id}
              href={href('schedules', one.id)}
              title={
                <>
                  {one.name || one.text} <State schedule={one} />
                </>
              }
              text={one.paused || (one.next_words[0] ? `Next: ${one.next_words[0]}` : one.when)}
              side={one.last && <End run={one.last} />}
            />
          ))}
        </List>
      )}
      <Dialog title="Add a schedule" isOpen={isAdding.value} onClose={() => (isAdding.value = false)}>
        {isAdding.value && (
          <AddSchedule
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

function State({ schedule }: { schedule: ScheduleView }) {
  if (schedule.paused) return <Badge kind="waits">paused</Badge>;
  return schedule.next === null ? <Badge>over</Badge> : null;
}

function End({ run }: { run: ScheduleRunView }) {
  if (run.state !== 'done') return <Badge kind="waits">running</Badge>;
  return <Badge kind={run.end === 'done' ? 'good' : 'bad'}>{run.end}</Badge>;
}

function OneSchedule({ id }: { id: string }) {
  const path = { schedule_id: id };
  const { data, problem, reload } = useLive(['schedules'], () => rest.get('/api/schedules/{schedule_id}', { path }));
  const schedule = data.value?.schedule;
  const change = async (what: 'pause' | 'resume' | 'run') => {
    await attempt(() => rest.post(`/api/schedules/{schedule_id}/${what}`, { path }));
    await reload();
  };
  const remove = async () => {
    if (!(await confirm('Remove this schedule?', 'The chats of its runs stay.', 'Remove'))) return;
    if (await attempt(() => rest.delete('/api/schedules/{schedule_id}', { path }))) go('schedules');
  };
  return (
    <Sheet
      title={schedule ? schedule.name || schedule.text : 'Schedule'}
      actions={
        schedule && (
          <>
            <button type="button" onClick={() => change('run')}>
              Run now
            </button>
            <button type="button" onClick={() => change(schedule.paused ? 'resume' : 'pause')}>
              {schedule.paused ? 'Resume' : 'Pause'}
            </button>
            <button type="button" class="danger" onClick={remove}>
              <Icon name="trash" />
              Remove
            </button>
          </>
        )
      }
    >
      <Back href={href('schedules')}>Schedules</Back>
      <Problem text={problem.value} />
      {schedule && (
        <Facts
          facts={[
            ['What', schedule.text],
            ['When', schedule.when],
            ['Paused', schedule.paused],
            ['Next', schedule.next_words.join('\n')],
            ['Agent', schedule.agent],
            ['Chat', schedule.session || 'a new one each time'],
            ['Answer goes to', schedule.deliver],
            ['Tools', schedule.tools === null ? '' : `at most ${schedule.tools.join(', ')}`],
          ]}
        />
      )}
      <Section title="Runs">
        {data.value?.runs.length === 0 && <p class="muted">It has not run yet.</p>}
        <List label="Runs">
          {data.value?.runs.map((run) => (
            <Row
              key={run.due}
              {...(run.session ? { href: href('chat', run.session) } : {})}
              title={
                <>
                  <Ago at={run.due} /> <End run={run} />
                </>
              }
              text={run.problem ? `${run.text} (not delivered: ${run.problem})` : run.text}
            />
          ))}
        </List>
      </Section>
    </Sheet>
  );
}

function AddSchedule({ onDone }: { onDone: () => Promise<void> }) {
  const when = useSignal('');
  const text = useSignal('');
  const name = useSignal('');
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const send = async (event: Event) => {
    event.preventDefault();
    const body = { when: when.value, text: text.value, name: name.value, zone };
    if (await attempt(() => rest.post('/api/schedules', { body }))) await onDone();
  };
  return (
    <form onSubmit={send}>
      <Field label="When" hint={`every 30m, in 20m, at 2026-12-01T09:00, @daily, or 30 7 * * 1-5; in ${zone}`}>
        {(id, hint) => (
          <input
            id={id}
            aria-describedby={hint}
            required
            value={when.value}
            onInput={(event) => (when.value = event.currentTarget.value)}
          />
        )}
      </Field>
      <Field label="What the agent is told">
        {(id) => (
          <textarea
            id={id}
            required
            rows={3}
            value={text.value}
            onInput={(event) => (text.value = event.currentTarget.value)}
          />
        )}
      </Field>
      <Field label="Name" hint="A few words for this list.">
        {(id, hint) => (
          <input
            id={id}
            aria-describedby={hint}
            value={name.value}
            onInput={(event) => (name.value = event.currentTarget.value)}
          />
        )}
      </Field>
      <button type="submit" class="main">
        Add
      </button>
    </form>
  );
}
