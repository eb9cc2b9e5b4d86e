/**
 * An agent that misbehaves in one way, which its argument names. Its answer to a prompt is what it has received
 * for the requests that it made in the turn, as JSON in messages.
 */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

type Message = Readonly<Record<string, unknown>>;

const [mode = ''] = process.argv.slice(2);
const sessionId = 'session';
const answers: Message[] = [];
let wake = () => {};

function send(message: Message): void {
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
}

function update(update: Message, of = sessionId): void {
  send({ method: 'session/update', params: { sessionId: of, update } });
}

function say(text: string): void {
  update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text } });
}

function ask(id: number, sessionId: string): void {
  const toolCall = { toolCallId: `call-${id}`, title: 'rm x', kind: 'execute' };
  const options = [{ optionId: 'yes', kind: 'allow_once', name: 'Yes' }];
  send({ id, method: 'session/request_permission', params: { sessionId, toolCall, options } });
}

async function answered(count: number): Promise<void> {
  while (answers.length < count) await new Promise<void>((resolve) => (wake = resolve));
  for (const answer of answers) say(JSON.stringify(answer));
}

/** Ignores SIGTERM and has a session of its own, as commands of agents have. */
function leaveChild(): void {
  spawn('setsid', ['sh', '-c', 'trap "" TERM; sleep 600; true'], { stdio: 'ignore' });
  spawn('sh', ['-c', 'sleep 600; true'], { stdio: 'ignore', detached: true });
}

async function prompt(): Promise<void> {
  switch (mode) {
    case 'garbage':
      for (let line = 0; line < 3; line += 1)
        process.stdout.write('npm warn deprecated\n\n{"a":\n');
      break;
    case 'garbage-flood':
      for (;;) {
        process.stdout.write('Segmentation fault\n'.repeat(100));
        await sleep(1);
      }
    case 'huge-message':
      for (let megabytes = 0; megabytes < 100; megabytes += 1) {
        process.stdout.write('x'.repeat(1024 * 1024));
        await sleep(1);
      }
      break;
    case 'same-id-twice':
      ask(7, sessionId);
      ask(7, sessionId);
      await answered(2);
      break;
    case 'unknown-method':
      send({ id: 0, method: 'fs/write_text_file', params: { sessionId, path: '/x', content: '' } });
      send({ id: 1, method: 'toString' });
      send({ method: '_auth/status_update' });
      await answered(2);
      break;
    case 'invalid-permission':
      send({ id: 0, method: 'session/request_permission', params: { sessionId } });
      send({ id: 1, method: 'session/request_permission' });
      await answered(2);
      break;
    case 'unknown-session':
      update(
        { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: 'x' } },
        'other',
      );
      ask(0, 'other');
      await answered(1);
      break;
    case 'invalid-updates':
      update({ sessionUpdate: 'from_the_future' });
      update({ sessionUpdate: 'tool_call' });
      update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: { a: 1 } } });
      update({ sessionUpdate: 'tool_call_update', toolCallId: 'c', status: 'odd', content: [1] });
      break;
    case 'answers-nothing':
      send({ id: 999, result: {} });
      send({ id: 'x', error: { code: 1, message: '' } });
      break;
    case 'invalid-result':
      return;
    case 'exits':
      process.stderr.write('\u001B[31mout of cheese\u001B[0m\nkey: hostile-secret\n');
      process.exit(3);
      break;
    case 'children':
      leaveChild();
      await sleep(100);
      break;
    case 'children-and-exits':
      leaveChild();
      await sleep(100);
      process.exit(0);
      break;
    case 'stderr-flood':
      for (let megabytes = 0; megabytes < 3; megabytes += 1) {
        process.stderr.write('y'.repeat(1024 * 1024));
      }
      process.stderr.write('\nthe end of it\n', () => process.exit(1));
      await sleep(60_000);
      break;
    case 'update-flood':
      for (let count = 0; count < 1_000_000; count += 1) {
        say('flood'.repeat(200));
        if (process.stdout.writableNeedDrain) {
          await new Promise((resolve) => process.stdout.once('drain', resolve));
        }
      }
      break;
    case 'request-flood':
      for (let id = 0; id < 200; id += 1) ask(id, sessionId);
      await answered(136);
      break;
    case 'memory': {
      const held = [];
      for (;;) {
        held.push(Buffer.alloc(8 * 1024 * 1024, held.length + 1));
        await sleep(5);
      }
    }
    case 'closes-output':
      process.stdout.end();
      await sleep(600_000);
      break;
  }
}

async function handle(message: Message): Promise<void> {
  const { id, method } = message;
  if (method === undefined) {
    answers.push(message);
    wake();
    return;
  }
  if (method === 'initialize') {
    if (mode === 'hangs-in-initialize') return;
    if (mode === 'exits-in-initialize') {
      process.stderr.write('You are not logged in\n');
      process.exit(1);
    }
    const protocolVersion = mode === 'other-version' ? 99 : 1;
    send({ id, result: mode === 'invalid-initialize' ? 'hello' : { protocolVersion } });
  } else if (method === 'session/new' && mode === 'refuses-sessions') {
    process.stderr.write(`No more sessions for ${process.env['HOSTILE_KEY']}\n`);
    send({ id, error: { code: -32000, message: 'Authentication required' } });
  } else if (method === 'session/new') {
    send({ id, result: { sessionId } });
    if (mode === 'does-not-read') process.stdin.pause();
  } else if (method === 'session/prompt') {
    await prompt();
    const result = mode === 'invalid-result' ? { stopReason: 5 } : { stopReason: 'end_turn' };
    send({ id, result });
    if (mode === 'after-the-end') say('one more thing');
  }
}

if (mode === 'ignores-the-end') {
  process.on('SIGTERM', () => undefined);
  setInterval(() => undefined, 60_000);
}
if (mode !== 'ignores-the-end') process.stdin.on('end', () => process.exit(0));
if (mode === 'does-not-read') {
  setInterval(() => undefined, 60_000);
}
createInterface({ input: process.stdin }).on('line', (line) => {
  void handle(JSON.parse(line) as Message);
});
