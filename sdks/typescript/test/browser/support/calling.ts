import type { CDPSession, Page } from 'playwright-core';
import type { Outcome } from './page.js';

/** How to call: right after a click of the person's, or without one; cancelled after so many milliseconds, or not. */
export interface Calling {
  readonly gesture?: boolean;
  readonly abortAfter?: number;
}

/** What becomes of a call of a ready-made tool in the page. */
export async function callTool(page: Page, name: string, args: object = {}, how: Calling = {}): Promise<Outcome> {
  const words = [name, args, ...(how.abortAfter === undefined ? [] : [how.abortAfter])];
  return (await evaluate(
    page,
    `call(${words.map((word) => JSON.stringify(word)).join(', ')})`,
    how.gesture,
  )) as Outcome;
}

const sessions = new WeakMap<Page, Promise<CDPSession>>();

/** What a script of the page gives. Unlike Playwright's own `evaluate` it counts as a click only when it is said to. */
export async function evaluate(page: Page, expression: string, userGesture = false): Promise<unknown> {
  const session = sessions.get(page) ?? page.context().newCDPSession(page);
  sessions.set(page, session);
  const words = { expression, userGesture, awaitPromise: true, returnByValue: true };
  const { result, exceptionDetails } = await (await session).send('Runtime.evaluate', words);
  if (exceptionDetails !== undefined) {
    throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
  }
  return result.value;
}

/** Resolves when the expression is true in the page, which looks at it at every turn, for at most a minute. */
export async function until(page: Page, expression: string): Promise<void> {
  const script = `new Promise((resolve, reject) => {
    const last = Date.now() + 60000;
    const look = () => (${expression}) ? resolve() : Date.now() < last ? setTimeout(look, 10) : reject(new Error('in vain'));
    look();
  })`;
  await evaluate(page, script);
}
