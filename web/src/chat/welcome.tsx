import { isAdmin, status } from '../gateway/account.ts';
import { Icon, type IconName } from '../parts/icon.tsx';
import { href } from '../router.ts';

const TRIES: { icon: IconName; title: string; say: string }[] = [
  { icon: 'clock', title: 'Ask for the time elsewhere', say: 'What time is it in Tokyo?' },
  { icon: 'artifact', title: 'Write a file and read it', say: 'Write hello to notes.txt, then read notes.txt' },
  { icon: 'tool', title: 'Run a command', say: 'Run the command ls -la' },
];

/** What a new chat shows: three things to try, which work without a key. */
export function Welcome({ onTry }: { onTry: (text: string) => void }) {
  const model = status.value;
  return (
    <div class="welcome">
      <h2>What shall the agent do?</h2>
      <p class="muted">It has {model?.tools ?? 'many'} tools here. Each call is shown as it happens.</p>
      <ul class="tries">
        {TRIES.map(({ icon, title, say }) => (
          <li key={say}>
            <button type="button" onClick={() => onTry(say)}>
              <Icon name={icon} />
              <span>
                {title}
                <small>{say}</small>
              </span>
            </button>
          </li>
        ))}
      </ul>
      {isAdmin() && (
        <p class="muted pair-note">
          Your phone can be its camera, without an app: <a href={href('devices', 'pair')}>pair a phone</a>.
        </p>
      )}
      {model?.provider === 'offline' && (
        <p class="offline-note">
          <Icon name="model" />
          <span>
            A small stand-in without a key answers now: it follows rules, and shows what tools do.{' '}
            {isAdmin() && <a href={href('models', 'add')}>Use a real model</a>}
          </span>
        </p>
      )}
    </div>
  );
}
