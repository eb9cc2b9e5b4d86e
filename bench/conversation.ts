/**
 * 200 turns of 1 kB in one conversation: whether the last ones take longer than the first ones, and how
 * much disk they take. The payload is what the user wrote and what the model answered. The limits are a
 * client that sends the whole conversation through the bare proxy in each turn, and a table with one row
 * per message.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { agent, exchange } from './client.ts';
import { type BenchOptions, comparison, type Contender, interleave, show } from './measure.ts';
import { answerOf, scripts } from './processes/scripts.ts';
import { type BenchProcess, Processes } from './processes/start.ts';

const turns = 200;
const compared = 10;
const inputLength = 512;
/** Prose, which compresses as what people write does. */
const prose = readFileSync(new URL('../ARCHITECTURE.md', import.meta.url), 'utf8').replace(
  /[^\n\x20-\x7e]/g,
  ' ',
);

/** What the user writes in a turn; another part of the prose each time. */
function inputOf(turn: number): string {
  const from = (turn * 97) % (prose.length - inputLength);
  return prose.slice(from, from + inputLength);
}

type Model = 'turn' | 'paced-turn';

/** How long the last turns take, as a multiple of the first ones. */
async function growth(turn: (input: string) => Promise<void>): Promise<number> {
  const times: number[] = [];
  for (let n = 0; n < turns; n += 1) {
    const began = performance.now();
    await turn(inputOf(n));
    times.push(performance.now() - began);
  }
  const sum = (some: readonly number[]) => some.reduce((total, time) => total + time, 0);
  return sum(times.slice(-compared)) / sum(times.slice(0, compared));
}

function throughProxy(proxy: BenchProcess): Promise<number> {
  const messages: object[] = [];
  return growth(async (input) => {
    messages.push({ role: 'user', content: input });
    const body = { model: 'turn' satisfies Model, stream: true, messages };
    await exchange(proxy, '/v1/chat/completions', body).ended;
    messages.push({ role: 'assistant', content: answerOf(scripts.turn) });
  });
}

function throughRelay(relay: BenchProcess, model: Model): Promise<number> {
  let conversationId: string | undefined;
  return growth(async (input) => {
    let text = '';
    await exchange(relay, '/v1/runs', { model, input, conversationId }, (chunk) => {
      text += chunk;
    }).ended;
    conversationId ??= /"conversationId":"([^"]+)"/.exec(text)?.[1];
    if (!text.includes('"status":"completed"')) throw new Error(`The turn failed: ${text}`);
  });
}

function diskBytes(dir: string): number {
  return readdirSync(dir)
    .filter((name) => name.includes('.db'))
    .reduce((total, name) => total + statSync(join(dir, name)).size, 0);
}

async function bareTable(dir: string): Promise<number> {
  const db = new DatabaseSync(join(dir, 'bare.db'));
  db.exec('CREATE TABLE messages (id INTEGER PRIMARY KEY, text TEXT)');
  const empty = diskBytes(dir);
  const insert = db.prepare('INSERT INTO messages (text) VALUES (?)');
  for (let n = 0; n < turns; n += 1) {
    for (const text of [inputOf(n), answerOf(scripts.turn)]) insert.run(text);
  }
  db.close();
  return diskBytes(dir) - empty;
}

/** What the conversations add to the files of a server that has been stopped, which writes the log back. */
async function disk(
  processes: Processes,
  dir: string,
  work: (relay: BenchProcess) => Promise<number>,
): Promise<number> {
  const env = { RELAY_DATA_DIR: dir };
  await (await processes.relay({ env })).stop();
  const empty = diskBytes(dir);
  const relay = await processes.relay({ env });
  const conversations = await work(relay);
  await relay.stop();
  return (diskBytes(dir) - empty) / conversations;
}

export async function benchConversation(
  rounds: number,
  { profile }: BenchOptions = {},
): Promise<void> {
  const folders = Array.from({ length: 3 }, () => mkdtempSync(join(tmpdir(), 'relay-bench-')));
  const [bare = '', unpaced = '', paced = ''] = folders;
  try {
    await Processes.use(profile, async (processes) => {
      const proxy = await processes.start('proxy.ts');
      const unpacedBytes = await disk(processes, unpaced, async (relay) => {
        const contenders: Contender[] = [
          { name: 'bare proxy, whole conversation sent', run: () => throughProxy(proxy) },
          { name: 'Relay', run: () => throughRelay(relay, 'turn') },
        ];
        await interleave(contenders, 1);
        const rows = comparison(contenders, await interleave(contenders, rounds));
        show(`${turns} turns: time of the last ${compared} / the first ${compared}`, rows, '×');
        return rounds + 1;
      });
      const pacedBytes = await disk(processes, paced, async (relay) => {
        await throughRelay(relay, 'paced-turn');
        return 1;
      });
      const payload = turns * (inputLength + answerOf(scripts.turn).length);
      const figures = {
        'one row per message': await bareTable(bare),
        'Relay, provider unpaced': unpacedBytes,
        [`Relay, a token every ${scripts['paced-turn'].everyMs} ms`]: pacedBytes,
      };
      show(
        `${turns} turns of 1 kB: disk / payload`,
        comparison(
          Object.keys(figures).map((name) => ({ name })),
          Object.values(figures).map((bytes) => [bytes / payload]),
        ),
        '×',
      );
    });
  } finally {
    agent.destroy();
    for (const dir of folders) rmSync(dir, { recursive: true, force: true });
  }
}
