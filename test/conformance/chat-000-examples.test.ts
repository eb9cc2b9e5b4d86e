/** 000: the curl lines as they stand in the document. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { TestServer } from '../support/server.ts';
import { Chat } from './chat-client.ts';
import { verifies } from './verifies.ts';

const server = new TestServer();
beforeAll(() => server.start());
afterAll(() => server.dispose());

const relayId = '01963a5c-7893-7abc-def0-123456789abc';
const sessionId = '01963a5c-7890-7abc-def0-123456789abc';

function curlLine(response: string): string {
  return `curl -X POST http://localhost:4000/chat/relay/${relayId} \\
  -H "Content-Type: application/json" \\
  -d '{
    "sessionId": "${sessionId}",
    "response": ${response}
  }'`;
}

/** Runs a line in a shell with the ids of a chat in the place of the document's. */
async function inShell(line: string, chat: Chat, id: string): Promise<string> {
  const filled = line
    .replace('localhost:4000', `localhost:${new URL(server.url).port}`)
    .replace(relayId, id)
    .replace(sessionId, chat.sessionId);
  const { stdout } = await promisify(execFile)('bash', ['-c', filled]);
  return stdout;
}

describe('the curl lines of the document', () => {
  test.each([
    ['approve', '{\n      "approved": true\n    }', true],
    ['approve always', '{\n      "approved": true,\n      "always": true\n    }', true],
    [
      'deny',
      '{\n      "approved": false,\n      "reason": "This operation could delete important files"\n    }',
      false,
    ],
  ])('work as written, without a key: %s', async (name, response, runs) => {
    verifies('000:examples:without-key');
    const chat = await Chat.open(server, `notify ${name}`);
    const { id } = await chat.relay();
    const output = await inShell(curlLine(response), chat, id);
    expect(JSON.parse(output)).toEqual({ success: true });
    await chat.end();
    const sent = server.notes.map(({ text }) => text);
    expect(sent.includes(name)).toBe(runs);
  });
});

describe('a server without RELAY_PORT', () => {
  test('listens on localhost:4000', async () => {
    verifies('000:examples:port-4000');
    const plain = new TestServer({ RELAY_PORT: '' });
    try {
      await plain.start();
      expect(plain.url).toBe('http://127.0.0.1:4000');
      const health = await fetch('http://localhost:4000/health');
      expect(await health.json()).toMatchObject({ status: 'ok' });
    } catch (error) {
      // Another program uses the port: the error then names it.
      expect(plain.output, String(error)).toMatch(/EADDRINUSE.*127\.0\.0\.1:4000/);
    } finally {
      await plain.dispose();
    }
  });
});
