/** How many rows the journal of a run takes. */
import { DatabaseSync } from 'node:sqlite';
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  text,
  toolCall,
} from '@relay/core/testing';
import { expect, test } from 'vitest';
import { ask } from '../support/kernel.ts';
import { finished, openFixture } from './fixture.ts';
import { sqlite } from './stores.ts';

const words = Array.from({ length: 40 }, (_, n) => text(` word${n}`));

test('a turn is one row of the journal, however often its text was committed', async () => {
  const { boot, path } = await openFixture(sqlite);
  const tools = [createRecordingTool({ name: 'look', allowedByDefault: true })];
  const model = createScriptedModel([
    [...words, toolCall('call_1', 'look', {}), finish()],
    [...words, finish()],
  ]);
  const kernel = await boot({ model, tools });
  const run = await ask(kernel);
  const events = await finished(kernel, run.id);
  const db = new DatabaseSync(path ?? '', { readOnly: true });
  const rows = db
    .prepare('SELECT first_seq, last_seq FROM events WHERE run_id = ? ORDER BY first_seq')
    .all(run.id);
  db.close();
  const types = rows.map((row) => events[Number(row['first_seq']) - 1]?.type);
  expect(types.filter((type) => type === 'turn.started')).toHaveLength(2);
  expect(types).not.toContain('text.appended');
  expect(rows.at(-1)?.['last_seq']).toBe(events.length);
});
