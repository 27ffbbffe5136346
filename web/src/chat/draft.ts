import { effect, signal } from '@preact/signals';

const PREFIX = 'handspan.draft.';
/** More than a person writes; a whole file that was pasted is not kept over a reload. */
const MOST_KEPT = 100_000;

/** What a person has written in one chat, and not sent yet. The text outlives a reload, files do not. */
export class Draft {
  readonly text = signal('');
  readonly files = signal<File[]>([]);

  constructor(chat: string) {
    const key = PREFIX + chat;
    this.text.value = localStorage.getItem(key) ?? '';
    effect(() => keep(key, this.text.value));
  }

  add(files: Iterable<File>): void {
    this.files.value = [...this.files.value, ...files];
  }

  remove(file: File): void {
    this.files.value = this.files.value.filter((one) => one !== file);
  }

  /** Gives what there is, and begins anew. */
  take(): { text: string; files: File[] } {
    const taken = { text: this.text.value, files: this.files.value };
    this.text.value = '';
    this.files.value = [];
    return taken;
  }
}

const drafts = new Map<string, Draft>();

/** The draft of a chat, '' being that of a new one. It is there again after the way to another page. */
export function draftOf(chat: string): Draft {
  const draft = drafts.get(chat) ?? new Draft(chat);
  drafts.set(chat, draft);
  return draft;
}

function keep(key: string, text: string): void {
  try {
    if (text && text.length <= MOST_KEPT) localStorage.setItem(key, text);
    else localStorage.removeItem(key);
  } catch {
    // no room in this browser: the draft lives as long as the page
  }
}
