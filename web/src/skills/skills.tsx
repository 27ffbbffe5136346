import { useSignal } from '@preact/signals';
import type { AgentView, SkillView } from 'handspan/rest';
import { isAdmin } from '../gateway/account.ts';
import { useLive } from '../gateway/live.ts';
import { rest } from '../gateway/rest.ts';
import type { PageProps } from '../pages.ts';
import { Code } from '../parts/code.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { Empty, Problem } from '../parts/empty.tsx';
import { Badge, List, Row, Sheet, Switch } from '../parts/list.tsx';
import { Choose } from '../parts/section.tsx';
import { attempt } from '../parts/toast.tsx';

/** The skills: which an agent has, and those of the workspace that a person has to allow. */
export function Page(_: PageProps) {
  const { data, problem, reload } = useLive(['sessions'], () => rest.get('/api/skills'));
  const known = useLive(['agents'], () => rest.get('/api/agents'));
  const agents = known.data.value;
  const chosen = useSignal('');
  const read = useSignal('');
  const skills = data.value?.skills;
  const agent = agents?.agents.find(({ name }) => name === (chosen.value || agents.default));
  const shown = skills?.find(({ name }) => name === read.value);
  return (
    <Sheet
      title="Skills"
      text="Instructions for one kind of work. A skill that is on is part of every session of the agent."
      actions={
        <Choose
          label="Agent"
          value={agent?.name ?? ''}
          options={agents?.agents.map(({ name }) => name) ?? []}
          onChange={(name) => (chosen.value = name)}
        />
      }
    >
      <Problem text={problem.value} />
      {skills?.length === 0 && (
        <Empty
          icon="skill"
          title="No skills were found"
          text="A skill is a folder with a SKILL.md, in “.handspan/skills” of the workspace."
        />
      )}
      {skills && skills.length > 0 && (
        <List label="Skills">
          {skills.map((skill) => (
            <SkillRow
              key={`${skill.where} ${skill.name}`}
              skill={skill}
              agent={agent}
              onRead={() => (read.value = skill.name)}
              reload={known.reload}
            />
          ))}
        </List>
      )}
      <Dialog title={read.value} isOpen={shown !== undefined} onClose={() => (read.value = '')}>
        {shown && (
          <ReadSkill
            skill={shown}
            onDone={async () => {
              read.value = '';
              await reload();
            }}
          />
        )}
      </Dialog>
    </Sheet>
  );
}

interface SkillProps {
  skill: SkillView;
  agent: AgentView | undefined;
  onRead: () => void;
  reload: () => Promise<void>;
}

function SkillRow({ skill, agent, onRead, reload }: SkillProps) {
  const { name, where, enabled, problems, description } = skill;
  const isOn = agent?.skills.includes(name) ?? false;
  const turn = async (on: boolean) => {
    await attempt(() => setSkill(agent?.name ?? '', name, on));
    await reload();
  };
  return (
    <Row
      title={
        <>
          {name} <Badge>{where === 'builtin' ? 'built-in' : where}</Badge>{' '}
          {!enabled && <Badge kind="waits">not allowed</Badge>}
        </>
      }
      text={
        <>
          {description}
          {problems.map((one) => (
            <span key={one} class="line">
              {one}
            </span>
          ))}
        </>
      }
      {...(isAdmin() ? { onOpen: onRead } : {})}
      actions={
        <Switch
          label={`${name} is on for ${agent?.name ?? 'the agent'}`}
          isOn={isOn}
          isDisabled={!agent || agent.kept === 'settings' || (!enabled && !isOn)}
          onChange={(on) => turn(on)}
        />
      }
    />
  );
}

let lastChange: Promise<unknown> = Promise.resolve();

/** Switches a skill of an agent. A request names all its skills, so each begins with those that the one before left. */
function setSkill(agent: string, skill: string, isOn: boolean): Promise<unknown> {
  const path = { name: agent };
  const change = async () => {
    const { skills } = await rest.get('/api/agents/{name}', { path });
    const others = skills.filter((one) => one !== skill);
    await rest.patch('/api/agents/{name}', { path, body: { skills: isOn ? [...others, skill] : others } });
  };
  const changed = lastChange.catch(() => {}).then(change);
  lastChange = changed;
  return changed;
}

/** The text of a skill; one of the workspace is allowed as it was read, because a model can write there. */
function ReadSkill({ skill, onDone }: { skill: SkillView; onDone: () => Promise<void> }) {
  const path = { name: skill.name };
  const { data, problem } = useLive([], () => rest.get('/api/skills/{name}', { path }), skill.fingerprint);
  const text = data.value;
  const decide = async (enabled: boolean) => {
    const body = enabled ? { enabled, fingerprint: text?.fingerprint ?? '' } : { enabled };
    if (await attempt(() => rest.put('/api/skills/{name}', { path, body }))) await onDone();
  };
  return (
    <>
      <Problem text={problem.value} />
      <small>{skill.path}</small>
      {text && <Code text={text.instructions} label="Copy the instructions" />}
      {skill.where === 'workspace' && (
        <footer class="buttons">
          {skill.enabled ? (
            <button type="button" onClick={() => void decide(false)}>
              Do not allow it any more
            </button>
          ) : (
            <button type="button" class="main" disabled={!text} onClick={() => void decide(true)}>
              Allow it as it is here
            </button>
          )}
        </footer>
      )}
    </>
  );
}
