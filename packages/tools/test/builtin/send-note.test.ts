import { appendFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createSendNote } from '../../src/builtin/send-note.ts';
import { createToolContext } from '../support/tool-context.ts';

let dataDir: string;

beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'relay-notes-'));
});

afterEach(() => rmSync(dataDir, { recursive: true, force: true }));

const log = () => readFileSync(join(dataDir, 'notes.log'), 'utf8');
const notes = () =>
  log()
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);

describe('send_note', () => {
  it('is neither allowed by default nor idempotent', () => {
    expect(createSendNote({ dataDir })).toMatchObject({
      name: 'send_note',
      allowedByDefault: false,
      idempotent: false,
      onUnknown: 'ask',
    });
  });

  it('appends one line with recipient, text, time and origin', async () => {
    const context = createToolContext({ runId: 'r1', toolCallId: 'call_9' });
    const output = await createSendNote({ dataDir }).execute(
      { to: 'operator', text: 'Hi' },
      context,
    );
    expect(output).toEqual({
      context: 'The note to operator was sent.',
      result: { sent: true },
    });
    expect(log()).toMatch(/^[^\n]+\n$/);
    expect(notes()).toEqual([
      {
        at: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
        to: 'operator',
        text: 'Hi',
        runId: 'r1',
        toolCallId: 'call_9',
      },
    ]);
  });

  it('stores a note with several lines in one line', async () => {
    const text = 'a\nb\r\n\u2028c\u0000 "quoted" \\ 🙂 \ud800';
    await createSendNote({ dataDir }).execute({ to: 'me', text }, createToolContext());
    expect(log().split('\n')).toHaveLength(2);
    expect(notes()[0]?.['text']).toBe(text);
  });

  it('keeps notes that are sent at the same time apart', async () => {
    const tool = createSendNote({ dataDir });
    const texts = Array.from({ length: 50 }, (_, n) => `${n} ${'x'.repeat(n * 100)}`);
    await Promise.all(
      texts.map((text) => tool.execute({ to: 'operator', text }, createToolContext())),
    );
    expect(notes().map(({ text }) => text)).toEqual(texts);
  });

  it('starts a new line after a partial line', async () => {
    appendFileSync(join(dataDir, 'notes.log'), '{"at":"2026-01-01T00:0');
    await createSendNote({ dataDir }).execute({ to: 'a', text: 'b' }, createToolContext());
    const [half, whole, end] = log().split('\n');
    expect(half).toBe('{"at":"2026-01-01T00:0');
    expect(JSON.parse(whole ?? '')).toMatchObject({ to: 'a', text: 'b' });
    expect(end).toBe('');
  });

  it('creates the data folder, and a file that only its owner can read', async () => {
    dataDir = join(dataDir, 'a', 'b');
    await createSendNote({ dataDir }).execute({ to: 'a', text: 'b' }, createToolContext());
    expect(statSync(join(dataDir, 'notes.log')).mode & 0o777).toBe(0o600);
  });

  it('writes nothing for a run that was canceled', async () => {
    const context = createToolContext({ signal: AbortSignal.abort() });
    const call = createSendNote({ dataDir }).execute({ to: 'a', text: 'b' }, context);
    await expect(call).rejects.toThrow('aborted');
    expect(() => log()).toThrow('ENOENT');
  });

  it('fails if it cannot write, and works again afterwards', async () => {
    const tool = createSendNote({ dataDir });
    mkdirSync(join(dataDir, 'notes.log'));
    const note = { to: 'a', text: 'b' };
    await expect(tool.execute(note, createToolContext())).rejects.toThrow('EISDIR');
    rmSync(join(dataDir, 'notes.log'), { recursive: true });
    await tool.execute(note, createToolContext());
    expect(notes()).toHaveLength(1);
  });

  it.each([
    {},
    { to: 'a' },
    { to: '', text: 'b' },
    { to: 'a', text: '' },
    { to: 'a', text: 'x'.repeat(10_001) },
    { to: 'x'.repeat(201), text: 'b' },
    { to: 'a', text: 'b', cc: 'c' },
    { to: ['a'], text: 'b' },
  ])('refuses wrong arguments', (input) => {
    expect(createSendNote({ dataDir }).validate(input).ok).toBe(false);
  });
});
