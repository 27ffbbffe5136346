// Every case of protocol/vectors/device, by the state machine alone and by the whole Device over a real socket.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Case, cases } from './support/cases.js';
import { PurePlayer } from './support/pure-player.js';
import { SocketServer } from './support/socket-server.js';
import { walk } from './support/walking.js';
import { WiredPlayer } from './support/wired-player.js';

const CASES = cases();
const ROWS_OF_A_CLIENT = [...'abcdghkn'];

describe('the state machine does what the case says', () => {
  test.each(CASES)('%s', (_, one) => walk(one, new PurePlayer(one)));
});

describe('the device does it over a socket', () => {
  let server: SocketServer;
  beforeAll(async () => {
    server = await SocketServer.start();
  });
  afterAll(() => server.close());

  test.each(CASES)('%s', async (_, one) => {
    const player = new WiredPlayer(one, server);
    try {
      await walk(one, player);
    } finally {
      await player.close();
      server.links.clear();
    }
  });
});

test('every row of the table in ws.md 6.7 that a client sees has a case', () => {
  expect([...new Set(CASES.flatMap(([, one]) => one.rows ?? []))].sort()).toEqual(ROWS_OF_A_CLIENT);
});

test('the walk fails where the device does something else', async () => {
  const [, good] = CASES.find(([name]) => name === 'calls: a call is answered with what the code returns') ?? [];
  const wrong = { ...(good as Case), steps: [...(good?.steps ?? []), { runs: { battery: 2 } }] };
  await expect(walk(wrong, new PurePlayer(wrong))).rejects.toThrow('"battery":2');
});
