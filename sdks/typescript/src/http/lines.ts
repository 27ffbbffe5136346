import type { Patience } from './patience.js';

/** The lines of an answer as they come, without the empty ones; characters may be cut anywhere between two reads. */
export async function* readLines(response: Response, patience: Patience): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  try {
    const reader = response.body?.getReader();
    while (reader !== undefined) {
      const { done, value } = await patience.wait(reader.read());
      const lines = (rest + decoder.decode(value, { stream: !done })).split('\n');
      rest = done ? '' : (lines.pop() ?? '');
      yield* lines.filter((line) => line.trim() !== '');
      if (done) return;
    }
  } finally {
    patience.end();
  }
}
