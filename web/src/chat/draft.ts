import { signal } from '@preact/signals';

/** What a person has written in one chat, and not sent yet. */
export class Draft {
  readonly text = signal('');
  readonly files = signal<File[]>([]);

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
  const draft = drafts.get(chat) ?? new Draft();
  drafts.set(chat, draft);
  return draft;
}
