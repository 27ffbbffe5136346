import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { openQuestions } from '../questions/open.ts';
import type { Conversation } from './conversation.ts';

/** Seconds of silence after which they are shown. */
const LONG = 3;

/** That the agent is at work, and for how long nothing was heard of it. */
export function Typing({ chat }: { chat: Conversation }) {
  const isRunning = chat.isRunning.value;
  const now = useSignal(Date.now());
  useEffect(() => {
    if (!isRunning) return;
    const timer = setInterval(() => {
      now.value = Date.now();
    }, 1000);
    return () => clearInterval(timer);
  }, [isRunning, now]);
  const waits = openQuestions.value.some(({ session }) => session === chat.id);
  const seconds = Math.floor((now.value - chat.heard.value) / 1000);
  return (
    <div class="typing-line">
      <span role="status">
        {isRunning && !waits && (
          <span class="typing">
            <span class="hidden">The agent is at work</span>
          </span>
        )}
        {waits && <span class="hidden">A question waits for you</span>}
      </span>
      {isRunning && !waits && seconds >= LONG && <small aria-hidden="true">{seconds} s</small>}
    </div>
  );
}
