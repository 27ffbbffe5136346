import { Icon } from '../parts/icon.tsx';
import type { Completions } from './completions.ts';

/** What `/` and `@` offer, over the field. The focus stays in the field. */
export function CompletionList({ completions }: { completions: Completions }) {
  const { shown, chosen, choose } = completions;
  return (
    <>
      <span class="hidden" role="status">
        {shown.length > 0 && `${shown.length} suggestions`}
      </span>
      {shown.length > 0 && (
        <div class="completions" id="completions" role="listbox" aria-label="Suggestions" tabIndex={0}>
          {shown.map((one, index) => (
            // biome-ignore lint/a11y/useFocusableInteractive: the field keeps the focus
            // biome-ignore lint/a11y/useKeyWithClickEvents: the field takes the keys
            <div
              key={`${one.text} ${one.name}`}
              id={`completion-${index}`}
              role="option"
              aria-selected={index === chosen}
              ref={index === chosen ? (row) => row?.scrollIntoView({ block: 'nearest' }) : null}
              onPointerDown={(event) => event.preventDefault()}
              onClick={() => choose(one)}
            >
              <Icon name={one.icon} />
              <span class="completion-name">{one.name}</span>
              <small>{one.text}</small>
            </div>
          ))}
        </div>
      )}
    </>
  );
}
