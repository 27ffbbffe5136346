import { useSignal } from '@preact/signals';
import type { ContextUse, ContextView } from 'handspan/rest';
import { messageOf, rest } from '../gateway/rest.ts';
import { Problem } from '../parts/empty.tsx';
import type { Conversation } from './conversation.ts';

const numbers = new Intl.NumberFormat('en');
const NEARLY = 0.8;
/** What fills a context, and the words for it. */
const PARTS = [
  ['instructions', 'Instructions'],
  ['tools', 'Tools'],
  ['summary', 'Summary'],
  ['history', 'Messages'],
  ['results', 'Results of calls'],
] as const;

/** How full the context of this chat is, and of what (SPEC L3). Nothing where its model has no limit. */
export function ContextMeter({ chat }: { chat: Conversation }) {
  const context = chat.context.value;
  if (!context || context.limit <= 0) return null;
  const share = Math.min(1, context.used / context.limit);
  return <Meter key={chat.id} chat={chat} context={context} share={share} />;
}

function Meter({ chat, context, share }: { chat: Conversation; context: ContextUse; share: number }) {
  const parts = useSignal<ContextView | undefined>(undefined);
  const problem = useSignal('');
  const read = async () => {
    try {
      parts.value = await rest.get('/api/sessions/{session_id}/context', { path: { session_id: chat.id } });
      problem.value = '';
    } catch (error) {
      problem.value = messageOf(error);
    }
  };
  const words = `${numbers.format(context.used)} of ${numbers.format(context.limit)} tokens of context`;
  return (
    <details class="context" onToggle={({ currentTarget }) => currentTarget.open && void read()}>
      <summary class={share >= NEARLY ? 'plain nearly' : 'plain'} title={words}>
        <svg viewBox="0 0 20 20" aria-hidden="true">
          <circle cx="10" cy="10" r="8" />
          <circle cx="10" cy="10" r="8" pathLength="100" stroke-dasharray={`${share * 100} 100`} class="used" />
        </svg>
        <span class="hidden">Context: </span>
        {Math.round(share * 100)} %
      </summary>
      <div class="menu-items">
        <p>{words} are used.</p>
        <Problem text={problem.value} />
        {parts.value && <Parts parts={parts.value} />}
      </div>
    </details>
  );
}

function Parts({ parts }: { parts: ContextView }) {
  return (
    <dl class="values">
      {PARTS.filter(([name]) => parts[name] > 0).map(([name, title]) => (
        <div key={name}>
          <dt>{title}</dt>
          <dd>{numbers.format(parts[name])}</dd>
        </div>
      ))}
    </dl>
  );
}
