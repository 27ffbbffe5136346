import { useLive } from '../gateway/live.ts';
import { rest } from '../gateway/rest.ts';
import { Icon } from '../parts/icon.tsx';
import { ContextMeter } from './context-meter.tsx';
import type { Conversation } from './conversation.ts';
import { ModelChoice } from './model-choice.tsx';

const numbers = new Intl.NumberFormat('en');

/** Below the field: which agent and which model answer in this chat, how full its context is, and what it has cost. */
export function ChatFoot({ chat, onKeys }: { chat: Conversation; onKeys: () => void }) {
  const { data } = useLive(['agents', 'models'], () => rest.get('/api/agents'));
  const agents = data.value?.agents ?? [];
  const chosen = agents.find(({ name }) => name === (chat.agent.value || data.value?.default));
  const used = chat.usage.value;
  const cost = used?.cost.known;
  return (
    <div class="chat-foot">
      <select
        aria-label="Agent"
        value={chosen?.name ?? ''}
        onChange={(event) => chat.chooseAgent(event.currentTarget.value)}
        title="The agent that answers"
      >
        {agents.map(({ name }) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
      <ModelChoice chat={chat} agent={chosen} />
      <span class="grow" />
      <ContextMeter chat={chat} />
      {used?.input.known != null && (
        <span
          class="chat-tokens"
          title="Tokens that this chat has used: those that models read, and those that they wrote"
        >
          {numbers.format(used.input.known)} tokens in, {numbers.format(used.output.known ?? 0)} out
        </span>
      )}
      {cost != null && <span title="What this chat has cost">${cost.toFixed(4)}</span>}
      <button type="button" class="plain" title="Keys" aria-label="Keys" onClick={onKeys}>
        <Icon name="question" />
      </button>
    </div>
  );
}
