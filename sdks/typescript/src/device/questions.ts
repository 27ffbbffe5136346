import type { Action } from './actions.js';
import type { AnswerFrame, QuestionFrame, ServerFrame, TurnEvent } from './frames.js';

const MOST_CLOSED = 1000;

/** The questions to the person of a chat that are open (ws.md 3.8). No socket, no clock. */
export class Questions {
  /** Each with the answer that was given, until the gateway says that it is over. */
  #open = new Map<string, { question: QuestionFrame; answer?: AnswerFrame }>();
  #closed = new Set<string>();

  heard(frame: ServerFrame): Action[] {
    if (frame.type === 'question') return this.#asked(frame);
    if (frame.type === 'question_closed') return this.#over(frame.id);
    if (frame.type === 'error' && frame.code === 'INVALID_ANSWER') return this.refuse(frame.id ?? '', frame.message);
    // After a drop the gateway sends events again, and no other frames (ws.md 6.5).
    return frame.type === 'event' ? this.#asked(questionIn(frame.event)) : [];
  }

  /** The person has answered: the frame to send. Nothing when it is over, or was answered before. */
  answered(answer: AnswerFrame): AnswerFrame | undefined {
    const asked = this.#open.get(answer.id);
    if (!asked || asked.answer) return undefined;
    asked.answer = answer;
    return answer;
  }

  /** Answers that the gateway may not have heard: they are sent on every new link. */
  unheard(): AnswerFrame[] {
    return [...this.#open.values()].flatMap(({ answer }) => answer ?? []);
  }

  /** The answer does not count, for this reason: the person is asked again. */
  refuse(id: string, problem: string): Action[] {
    const asked = this.#open.get(id);
    if (!asked?.answer) return [];
    this.#open.set(id, { question: asked.question });
    return [{ do: 'question', question: asked.question, problem }];
  }

  #asked(question: QuestionFrame | undefined): Action[] {
    if (!question || this.#open.has(question.id) || this.#closed.has(question.id)) return [];
    this.#open.set(question.id, { question });
    return [{ do: 'question', question }];
  }

  #over(id: string): Action[] {
    this.#closed.add(id);
    for (const oldest of this.#closed) {
      if (this.#closed.size <= MOST_CLOSED) break;
      this.#closed.delete(oldest);
    }
    return this.#open.delete(id) ? [{ do: 'stop', id, reason: 'the question is over' }] : [];
  }
}

/** The question that an event brings (ws.md 3.7), in the form of its frame. */
function questionIn({ type, question }: TurnEvent): QuestionFrame | undefined {
  if (type !== 'question' || typeof question !== 'object' || question === null || Array.isArray(question)) {
    return undefined;
  }
  const expires_ms = Number(question.expires_in) * 1000;
  return { ...(question as unknown as QuestionFrame), type: 'question', expires_ms };
}
