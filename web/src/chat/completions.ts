import { useSignal } from '@preact/signals';
import type { McpPromptView } from 'handspan/rest';
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
  /** Whether it is a folder, whose files are offered next. */
  opens?: boolean;
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
  const folder = place.value?.sign === '@' ? folderOf(place.value.word) : '';
  const close = () => {
    place.value = undefined;
  };
  useEffect(() => {
    if (!sign) return;
    let isHere = true;
    const load = sign === '/' ? () => offerCommands(chat, onKeys) : () => offerThings(chat, draft, folder);
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
  }, [sign, folder, chat, draft, onKeys, offered]);
  const shown = place.value ? matching(offered.value, place.value.word) : [];
  const choose = (one: Completion) => {
    const at = place.value;
    if (!at) return;
    const { from, to } = at;
    const insert = one.insert === undefined ? '' : one.opens ? one.insert : `${one.insert} `;
    draft.text.value = draft.text.value.slice(0, from) + insert + draft.text.value.slice(to);
    close();
    one.run?.();
    requestAnimationFrame(() => {
      field.current?.focus();
      field.current?.setSelectionRange(from + insert.length, from + insert.length);
      if (one.opens) onInput();
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

/** The path up to the last slash. */
function folderOf(word: string): string {
  return word.slice(0, word.lastIndexOf('/') + 1);
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
  const [{ skills }, { servers }] = await Promise.all([
    rest.get('/api/skills').catch(() => ({ skills: [] })),
    rest.get('/api/mcp').catch(() => ({ servers: [] })),
  ]);
  const prompts = servers.flatMap(({ name: server, prompts = [], tools }) => {
    const get = tools.find((tool) => tool.endsWith('__get_prompt'));
    return get ? prompts.map((prompt) => offerPrompt(prompt, server)) : [];
  });
  const known = skills.map(
    ({ name, description }): Completion => ({
      name,
      text: description,
      icon: 'skill',
      insert: `Use the skill ${name}:`,
    }),
  );
  return [...own, ...known, ...prompts];
}

/** A prompt of an MCP server. The agent fills it in, with what the person writes behind the names of its arguments. */
function offerPrompt({ name, description, arguments: names }: McpPromptView, server: string): Completion {
  const given = names.map((one) => `${one} = `).join(', ');
  return {
    name: `${server}: ${name}`,
    text: description,
    icon: 'mcp',
    insert: `Use the prompt ${name} of ${server}${given ? ` with ${given.trimEnd()}` : ':'}`,
  };
}

async function offerThings(chat: Conversation, draft: Draft, folder: string): Promise<Completion[]> {
  const named = await offerFiles(chat.agent.value, folder).catch(() => []); // not every agent may see files
  if (folder) return named;
  const [{ tools }, { artifacts }] = await Promise.all([rest.get('/api/tools'), rest.get('/api/artifacts')]);
  const files = artifacts.map(({ id, name, media_type: kind }): Completion => {
    const attach = async () => draft.add([await readFile({ kind: 'file', name: name || id, url: artifactUrl(id) })]);
    return { name: name || id, text: `artifact, ${kind}`, icon: 'artifact', run: () => void attempt(attach) };
  });
  const usable = tools
    .filter(({ enabled, internal }) => enabled && !internal)
    .map(({ name, description }): Completion => ({ name, text: description, icon: 'tool', insert: name }));
  return [...named, ...files, ...usable];
}

/** The files of one folder of the workspace. A folder that is chosen offers its own. */
async function offerFiles(agent: string, folder: string): Promise<Completion[]> {
  const { entries } = await rest.get('/api/files', { query: { folder: folder.slice(0, -1), agent } });
  return entries.map(({ name: own, is_folder: isFolder }) => {
    const name = folder + own;
    const text = isFolder ? 'folder of the workspace' : 'file of the workspace';
    if (isFolder && !/[\s@]/.test(name))
      return { name: `${name}/`, text, icon: 'folder', insert: `@${name}/`, opens: true };
    return { name, text, icon: isFolder ? 'folder' : 'artifact', insert: /\s/.test(name) ? `"${name}"` : name };
  });
}
