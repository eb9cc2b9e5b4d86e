/**
 * What really happened: every call is on the disk before it is answered. Nothing else writes this
 * file, which is read at the end, and by the person who is asked about an outcome.
 */
import { fsyncSync, openSync, writeSync } from 'node:fs';
import { createServer } from 'node:http';
import { bodyOf, listen, pause } from './serving.ts';

const file = openSync(process.env['CALLS_FILE'] ?? '', 'a');
/** How long a tool works after it has had its effect: so that a kill hits in between. */
const workMs = Number(process.env['WORK_MS'] ?? 60);
const ran = new Set<string>();
/** The calls that have had their effect and are not answered yet. */
let working = 0;

const server = createServer((request, response) => {
  void answer(request.method === 'POST').catch(() => response.destroy());

  async function answer(isCall: boolean): Promise<void> {
    if (!isCall) {
      const toolCallId = decodeURIComponent((request.url ?? '').slice('/ran/'.length));
      response.end(JSON.stringify({ ran: ran.has(toolCallId), working }));
      return;
    }
    const call = JSON.parse(await bodyOf(request)) as { toolCallId: string };
    writeSync(file, `${JSON.stringify({ at: Date.now(), ...call })}\n`);
    fsyncSync(file);
    ran.add(call.toolCallId);
    working += 1;
    await pause(workMs);
    working -= 1;
    response.end(JSON.stringify({ done: call.toolCallId }));
  }
});

await listen(server);
