import type { AgentView } from 'handspan/rest';
import { status } from '../gateway/account.ts';
import { useLive } from '../gateway/live.ts';
import { rest } from '../gateway/rest.ts';
import { attempt } from '../parts/toast.tsx';
import type { Conversation } from './conversation.ts';

const ID = 'chat-model';

/** Leads the person to the place where the model of this chat is chosen, and opens it. */
export function chooseModel(): void {
  const select = document.getElementById(ID);
  if (!(select instanceof HTMLSelectElement)) return;
  select.focus();
  try {
    select.showPicker();
  } catch {
    // a browser that opens it for a click alone: it has the focus
  }
}

/** The model that answers in this chat: its agent's, or one that is chosen for this chat alone. */
export function ModelChoice({ chat, agent }: { chat: Conversation; agent: AgentView | undefined }) {
  const { data } = useLive(['models'], () => rest.get('/api/models'));
  const own = chat.model.value;
  const others = [...(data.value?.models ?? []), 'offline'];
  const usual = agent?.model || status.value?.model || '';
  const why = own ? 'Chosen for this chat' : agent?.model ? `The agent ${agent.name} names it` : status.value?.why;
  return (
    <select
      id={ID}
      aria-label="Model"
      title={`The model that answers. ${why ?? ''}`}
      value={own}
      onChange={(event) => void attempt(() => chat.chooseModel(event.currentTarget.value))}
    >
      <option value="">{usual}</option>
      {others
        .filter((one) => one !== usual || one === own)
        .map((one) => (
          <option key={one} value={one}>
            {one}
          </option>
        ))}
      {own && !others.includes(own) && <option value={own}>{own}</option>}
    </select>
  );
}
