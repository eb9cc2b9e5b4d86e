/** What the CLI shows an approver of a call on a file. */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { cliFixture } from './fixture.ts';

const folder = realpathSync(mkdtempSync(join(tmpdir(), 'relay-cli-')));
for (const name of ['docs', 'deploy']) mkdirSync(join(folder, name));
writeFileSync(join(folder, 'deploy/prod.sh'), 'make\n');
symlinkSync('../deploy/prod.sh', join(folder, 'docs/readme.md'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const fixture = cliFixture({ RELAY_WORKSPACE: folder });
const { run } = fixture;

test('approvals show where a path leads, the change and its warnings, and chat does too', async () => {
  const edits = [{ old: 'make', new: 'mаke \u009b2K' }];
  const call = `use patch ${JSON.stringify({ filePath: 'docs/readme.md', edits })}`;
  const started = await fixture.client.runs.create({
    model: 'demo',
    input: call,
    tools: [{ name: 'patch', kind: 'builtin' }],
  });
  let id = '';
  for await (const event of started) {
    if (event.type !== 'approval_requested') continue;
    ({ id } = event);
    break;
  }
  const shown = await run('approvals', 'show', id);
  const listed = await run('approvals', 'list');
  const chat = await fixture.runIn({ stdin: `${call}\nd\n\n` }, 'chat', '--model', 'demo');
  for (const out of [shown.out, chat.err]) {
    expect(out).toContain('docs/readme.md → deploy/prod.sh (filePath)');
    expect(out).toContain('+mаke \\u{9b}2K');
    expect(out).toContain('names paths that lead elsewhere');
    expect(out).toContain('contains words that mix the letters of different scripts');
    expect(out).not.toContain('\u009b');
  }
  expect(listed.out).toContain('resolves-elsewhere');
  const json = await run('approvals', 'show', id, '--json');
  expect(json.out).not.toContain('\u009b');
  expect(JSON.parse(json.out)).toMatchObject({ params: { edits } });
});
