import type { AnswerFrame, QuestionFrame } from '../device/frames.js';
import { type AskPerson, answerTo } from '../device/question.js';
import { ValidationError } from '../errors/validation-error.js';
import type { StreamChunk } from './types.js';

/** The open questions of one run: each is shown to the person until it is over. graph.md 7.10 */
export class RunQuestions {
  readonly #open = new Map<string, AbortController>();

  constructor(
    private readonly ask: AskPerson,
    private readonly answer: (answer: AnswerFrame) => Promise<unknown>,
  ) {}

  /** Takes a chunk of the run: it may bring a question, or its end. */
  receive({ data }: StreamChunk): void {
    if (data?.status === 'question') void this.#show(data.question as QuestionFrame);
    else if (data?.status === 'question_closed') this.#close(String(data.question_id));
  }

  /** The request is over: so are its questions. */
  close(): void {
    for (const id of this.#open.keys()) this.#close(id);
  }

  /** Asks the person; an answer that does not fit is asked for again. */
  async #show(question: QuestionFrame): Promise<void> {
    const { id } = question;
    if (this.#open.has(id)) return;
    const control = new AbortController();
    this.#open.set(id, control);
    let problem: string | undefined;
    for (;;) {
      const answer = await answerTo(this.ask, question, control.signal, problem);
      if (!answer || control.signal.aborted) return;
      try {
        await this.answer(answer);
        return;
      } catch (error) {
        if (!(error instanceof ValidationError)) return; // it stays open for other clients, or expires
        problem = error.message;
      }
    }
  }

  #close(id: string): void {
    this.#open.get(id)?.abort(new DOMException('The question is over.', 'AbortError'));
    this.#open.delete(id);
  }
}
