import { useSignal } from '@preact/signals';
import type { RefObject } from 'preact';
import { useEffect } from 'preact/hooks';
import { artifactUrl, rest } from '../gateway/rest.ts';
import type { IconName } from '../parts/icon.tsx';
import { attempt } from '../parts/toast.tsx';
import { commands } from './commands.ts';
import type { Conversation } from './conversation.ts';
import type { Draft } from './draft.ts';
import { readFile } from './upload.ts';

/** One thing that can be put into a message, or done. */
export interface Completion {
  /** What it is called, and searched by. */
  name: string;
  text: string;
  icon: IconName;
  /** What stands in the message in place of what was typed. */
  insert?: string;
  run?: () => void;
}

/** So many are shown: more are found with another letter. */
const MOST = 50;

interface Place {
  /** Where the word begins that is completed, and where it ends. */
  from: number;
  to: number;
  sign: '/' | '@';
  word: string;
}

interface CompletionProps {
  chat: Conversation;
  draft: Draft;
  field: RefObject<HTMLTextAreaElement | null>;
  onKeys: () => void;
}

/** What `/` and `@` offer in the field, and how a keyboard chooses of it. */
export function useCompletions({ chat, draft, field, onKeys }: CompletionProps) {
  const place = useSignal<Place | undefined>(undefined);
  const offered = useSignal<Completion[]>([]);
  const chosen = useSignal(0);
  const sign = place.value?.sign;
  const close = () => {
    place.value = undefined;
  };
  useEffect(() => {
    if (!sign) return;
    let isHere = true;
    const load = sign === '/' ? () => offerCommands(chat, onKeys) : () => offerThings(draft);
    load().then(
      (found) => {
        if (isHere) offered.value = found;
      },
      () => {}, // what could not be read is not offered
    );
    return () => {
      isHere = false;
      offered.value = [];
    };
  }, [sign, chat, draft, onKeys, offered]);
  const shown = place.value ? matching(offered.value, place.value.word) : [];
  const choose = (one: Completion) => {
    const at = place.value;
    if (!at) return;
    const { from, to } = at;
    const insert = one.insert === undefined ? '' : `${one.insert} `;
    draft.text.value = draft.text.value.slice(0, from) + insert + draft.text.value.slice(to);
    close();
    one.run?.();
    requestAnimationFrame(() => {
      field.current?.focus();
      field.current?.setSelectionRange(from + insert.length, from + insert.length);
    });
  };
  const onInput = () => {
    const { value, selectionStart } = field.current ?? { value: '', selectionStart: 0 };
    place.value = findPlace(value, selectionStart);
    chosen.value = 0;
  };
  /** Whether the key was for the list. */
  const onKeyDown = (event: KeyboardEvent): boolean => {
    const one = shown[chosen.value];
    if (!one) return false;
    if (event.key === 'ArrowDown') chosen.value = (chosen.value + 1) % shown.length;
    else if (event.key === 'ArrowUp') chosen.value = (chosen.value + shown.length - 1) % shown.length;
    else if (event.key === 'Escape') close();
    else if ((event.key === 'Enter' && !event.shiftKey) || (event.key === 'Tab' && !event.shiftKey)) choose(one);
    else return false;
    event.preventDefault();
    return true;
  };
  const attributes =
    shown.length > 0
      ? ({
          'aria-autocomplete': 'list',
          'aria-controls': 'completions',
          'aria-activedescendant': `completion-${chosen.value}`,
        } as const)
      : {};
  return { shown, chosen: chosen.value, choose, close, onInput, onKeyDown, attributes };
}

export type Completions = ReturnType<typeof useCompletions>;

/** The word before the caret that is completed: `/` at the beginning of a message, `@` at the beginning of a word. */
export function findPlace(text: string, caret: number): Place | undefined {
  const before = text.slice(0, caret);
  const command = /^\/([\w-]*)$/.exec(before);
  if (command) return { sign: '/', word: command[1] ?? '', from: 0, to: caret };
  const thing = /(?:^|\s)@([^\s@]*)$/.exec(before);
  if (!thing) return undefined;
  const word = thing[1] ?? '';
  return { sign: '@', word, from: caret - word.length - 1, to: caret };
}

/** Those with the word in their name, first those that begin with it. */
function matching(all: Completion[], word: string): Completion[] {
  const wanted = word.toLowerCase();
  const found = all.filter(({ name }) => name.toLowerCase().includes(wanted));
  const begins = ({ name }: Completion) => Number(name.toLowerCase().startsWith(wanted));
  return found.sort((one, other) => begins(other) - begins(one)).slice(0, MOST);
}

async function offerCommands(chat: Conversation, onKeys: () => void): Promise<Completion[]> {
  const own = commands(chat, onKeys);
  const { skills } = await rest.get('/api/skills').catch(() => ({ skills: [] }));
  const known = skills.map(
    ({ name, description }): Completion => ({
      name,
      text: description,
      icon: 'skill',
      insert: `Use the skill ${name}:`,
    }),
  );
  return [...own, ...known];
}

async function offerThings(draft: Draft): Promise<Completion[]> {
  const [{ tools }, { artifacts }] = await Promise.all([rest.get('/api/tools'), rest.get('/api/artifacts')]);
  const files = artifacts.map(({ id, name, media_type: kind }): Completion => {
    const attach = async () => draft.add([await readFile({ kind: 'file', name: name || id, url: artifactUrl(id) })]);
    return { name: name || id, text: `artifact, ${kind}`, icon: 'artifact', run: () => void attempt(attach) };
  });
  const usable = tools
    .filter(({ enabled, internal }) => enabled && !internal)
    .map(({ name, description }): Completion => ({ name, text: description, icon: 'tool', insert: name }));
  return [...files, ...usable];
}
