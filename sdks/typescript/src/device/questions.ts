import type { Action } from './actions.js';
import type { AnswerFrame, QuestionFrame, ServerFrame, TurnEvent } from './frames.js';

const MAX_CLOSED = 1000;

/** The open questions to the person of a chat (ws.md 3.8). No socket, no clock. */
export class Questions {
  /** Each with the answer of the person, until the gateway closes the question. */
  #open = new Map<string, { question: QuestionFrame; answer?: AnswerFrame }>();
  #closed = new Set<string>();

  receive(frame: ServerFrame): Action[] {
    if (frame.type === 'question') return this.#receiveQuestion(frame);
    if (frame.type === 'question_closed') return this.#closeQuestion(frame.id);
    if (frame.type === 'error' && frame.code === 'INVALID_ANSWER') return this.refuse(frame.id ?? '', frame.message);
    // After a drop the gateway sends events again, and no other frames (ws.md 6.5).
    return frame.type === 'event' ? this.#receiveQuestion(questionIn(frame.event)) : [];
  }

  /** The person has answered: the frame to send. Undefined when the question is closed, or was answered before. */
  answer(answer: AnswerFrame): AnswerFrame | undefined {
    const entry = this.#open.get(answer.id);
    if (!entry || entry.answer) return undefined;
    entry.answer = answer;
    return answer;
  }

  /** The answers of open questions: every new link sends them again. */
  answers(): AnswerFrame[] {
    return [...this.#open.values()].flatMap(({ answer }) => answer ?? []);
  }

  /** The gateway refused the answer, for this reason: ask the person again. */
  refuse(id: string, problem: string): Action[] {
    const entry = this.#open.get(id);
    if (!entry?.answer) return [];
    this.#open.set(id, { question: entry.question });
    return [{ do: 'question', question: entry.question, problem }];
  }

  #receiveQuestion(question: QuestionFrame | undefined): Action[] {
    if (!question || this.#open.has(question.id) || this.#closed.has(question.id)) return [];
    this.#open.set(question.id, { question });
    return [{ do: 'question', question }];
  }

  #closeQuestion(id: string): Action[] {
    this.#closed.add(id);
    for (const oldest of this.#closed) {
      if (this.#closed.size <= MAX_CLOSED) break;
      this.#closed.delete(oldest);
    }
    return this.#open.delete(id) ? [{ do: 'stop', id, reason: 'the question is over' }] : [];
  }
}

/** The question that an event brings (ws.md 3.7), in the form of its frame. */
function questionIn(event: TurnEvent): QuestionFrame | undefined {
  if (event.type !== 'question') return undefined;
  const { expires_in, ...question } = event.question;
  return {
    ...(question as Omit<QuestionFrame, 'type' | 'expires_ms'>),
    type: 'question',
    expires_ms: expires_in * 1000,
  };
}
