import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { HandspanClient, type Question, type QuestionAnswer, type RunResult } from '../../src/index.js';
import { bounded } from '../device/support/bounded.js';
import { TestGateway } from '../support/gateway.js';

const SAID = 'call add {"a": 1, "b": 2}\nthen\n{results}';
let gateway: TestGateway;
let client: HandspanClient;
beforeAll(async () => {
  gateway = await TestGateway.start('--set', 'agents.General.mode="ask_always"');
});
beforeEach(() => {
  client = new HandspanClient({ baseUrl: gateway.url, token: gateway.token });
  client.registerTool({ name: 'add', handler: ({ a, b }) => a + b });
});
afterAll(() => gateway.close());

const last = ({ messages }: RunResult): string => messages.at(-1)?.text() ?? '';

/** The whole run of a stream. */
async function drained(chunks: AsyncGenerator<unknown, RunResult>): Promise<RunResult> {
  for (;;) {
    const next = await chunks.next();
    if (next.done) return next.value;
  }
}

test.each(['invoke', 'stream', 'chat'] as const)('a question of a run is answered by its own page: %s', async (way) => {
  const onQuestion = vi.fn<(question: Question) => QuestionAnswer>(() => ({
    decision: 'allow',
    arguments: { a: 1, b: 5 },
  }));
  const chat = client.chat({ onQuestion });
  const run =
    way === 'invoke'
      ? client.invoke(SAID, { onQuestion })
      : drained(way === 'stream' ? client.stream(SAID, { onQuestion }) : chat.send(SAID));
  const result = await bounded(run, 'the run');
  chat.close();
  expect(last(result)).toContain('"result":6');
  expect(onQuestion).toHaveBeenCalledOnce();
  const question = onQuestion.mock.calls[0]?.[0];
  expect(question).toMatchObject({ kind: 'approval', tool: 'add', agent: 'General', arguments: { a: 1, b: 2 } });
});

test('a no has its reason, and a question that was answered elsewhere is taken back', async () => {
  const said = await bounded(
    client.invoke(SAID, { onQuestion: () => ({ decision: 'deny', reason: 'Not today' }) }),
    'the run',
  );
  expect(last(said)).toContain('Not today');
  let signal: AbortSignal | undefined;
  const onQuestion = (question: Question): undefined => {
    signal = question.signal;
    void client.answerQuestion({ type: 'answer', id: question.id, decision: 'deny' }); // as another client would
  };
  await bounded(client.invoke(SAID, { onQuestion }), 'the run');
  expect(signal?.aborted).toBe(true);
});
