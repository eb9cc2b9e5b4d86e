/**
 * Several senders. Each sends one message after the other, with a key of its own, until a server has
 * acknowledged it; what was acknowledged is in the file before the next one is sent.
 */
import { appendFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { pause } from './serving.ts';

type Command =
  | { readonly do: 'servers'; readonly urls: readonly string[]; readonly key: string }
  | { readonly do: 'go'; readonly senders: number; readonly handles: readonly string[] }
  | { readonly do: 'drain' };

const file = process.env['SENDER_FILE'] ?? '';
const round = process.env['ROUND'] ?? '';
let urls: readonly string[] = [];
let key = '';
let place = 0;
const draining = new AbortController();
const lanes: Promise<void>[] = [];

function record(line: object): void {
  appendFileSync(file, `${JSON.stringify({ at: Date.now(), ...line })}\n`, { flush: true });
}

async function send(body: object): Promise<void> {
  for (;;) {
    const url = urls[(place += 1) % urls.length] ?? '';
    try {
      const response = await fetch(`${url}/v1/messages`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
      const text = await response.text();
      if (response.status === 201) {
        record({ kind: 'sent', message: JSON.parse(text) as object });
        return;
      }
      // A full inbox is emptied; anything else but a server that starts or stops is not expected.
      if (response.status < 500 && response.status !== 429) {
        record({ kind: 'trouble', status: response.status, text });
        return;
      }
    } catch {
      // The server is down.
    }
    await pause(30 + Math.random() * 50);
  }
}

/** To one, to another one, and to all. */
async function lane(name: string, handles: readonly string[]): Promise<void> {
  for (let number = 1; !draining.signal.aborted; number += 1) {
    const one = handles[number % (handles.length + 1)];
    const to = one === undefined ? handles.map((each) => `@${each}`) : `@${one}`;
    const text = `${name} ${number}`;
    await send({ to, text, idempotencyKey: `${round}-${text}` });
    await pause(Math.random() * 150);
  }
}

async function obey(command: Command): Promise<void> {
  switch (command.do) {
    case 'servers':
      ({ urls, key } = command);
      break;
    case 'go':
      for (let n = 0; n < command.senders; n += 1) lanes.push(lane(`s${n}`, command.handles));
      break;
    case 'drain':
      draining.abort();
      await Promise.all(lanes);
      console.log(JSON.stringify({ said: 'drained' }));
      process.exit(0);
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  void obey(JSON.parse(line) as Command);
}
process.exit(0);
