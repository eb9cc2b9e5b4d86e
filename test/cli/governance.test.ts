/** The policy, audit and webhooks commands. */
import { generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { values } from '../support/cli.ts';
import { cliFixture, waitingNote } from './fixture.ts';

const fixture = cliFixture({ RELAY_PRIVATE_NETWORKS: '127.0.0.0/8' });
const { run, runIn } = fixture;
const dir = mkdtempSync(join(tmpdir(), 'relay-governance-'));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

function file(name: string, content: unknown): string {
  const path = join(dir, name);
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content));
  return path;
}

const denyRule = { tool: 'send_note', params: { to: 'nobody*' } };

describe('policy', () => {
  test('is set from a file, shown, accepted again as shown, and has a history', async () => {
    expect((await run('policy', 'show')).err).toContain('Version 0 for all agents');
    const set = await run('policy', 'set', file('rules.json', { deny: [denyRule] }));
    expect(set).toMatchObject({ code: 0, err: '' });
    expect(set.out).toBe(
      'Version 1 is active for all agents: 1 deny, 0 ask, 0 allow, 0 approvers.\n',
    );

    const shown = await run('policy', 'show');
    expect(shown.err).toMatch(/^Version 1 for all agents, since .*Z by bootstrap\n$/);
    expect(shown.out).toBe('LIST  RULE\ndeny  send_note {"to":"nobody*"}\n');

    const json = await run('policy', 'show', '--json');
    const again = await runIn({ stdin: json.out }, 'policy', 'set');
    expect(again.out).toBe('Version 1 for all agents has not changed.\n');
    const [policy] = values(json);
    const stdin = JSON.stringify({ ...policy, ask: [{ tool: 'bash' }] });
    expect((await runIn({ stdin }, 'policy', 'set', '-')).out).toContain('Version 2 is active');

    const history = await run('policy', 'history');
    expect(history.out.split('\n')[0]).toMatch(/^VERSION +SINCE +DENY +ASK +ALLOW +APPROVERS +BY$/);
    expect(values<{ version: number }>(await run('policy', 'history', '--json'))).toMatchObject([
      { version: 2 },
      { version: 1 },
    ]);
    const first = values(await run('policy', 'show', '--at-version', '1', '--json'));
    expect(first).toMatchObject([{ version: 1, ask: [] }]);
    expect((await run('policy', 'show', '--at-version', '9')).code).toBe(3);
  });

  test('is not overwritten by a client that has read an older version', async () => {
    const set = (...args: string[]) =>
      runIn({ stdin: '{"deny": []}' }, 'policy', 'set', '--agent', 'clerk', ...args);
    expect(await set('--if-version', '0')).toMatchObject({ code: 0 });
    const late = await runIn(
      { stdin: '{"ask": [{"tool": "bash"}], "version": 0}' },
      'policy',
      'set',
      '--agent',
      'clerk',
    );
    expect(late.code).toBe(5);
    expect(late.err).toContain('it is at version 1 [policy_conflict]');
    const [clerk] = values(await run('policy', 'show', '--agent', 'clerk', '--json'));
    expect(clerk).toMatchObject({ version: 1, agent: 'clerk' });
  });

  test('is previewed without being changed', async () => {
    const { runId } = await waitingNote(fixture, 'previewed');
    const before = (await run('policy', 'show', '--json')).out;
    const rules = file('preview.json', { deny: [{ tool: 'send_note' }] });
    const preview = await run('policy', 'preview', rules);
    expect(preview.code).toBe(0);
    expect(preview.err).toMatch(/^1 of \d+ calls since .* would be decided differently\.\n$/);
    expect(preview.out).toMatch(new RegExp(`^${runId} +.*Z +ask +deny +send_note \\{`, 'm'));
    const [json] = values(await run('policy', 'preview', rules, '--json'));
    expect(json).toMatchObject({ changed: 1, changes: [{ runId, was: 'ask', now: 'deny' }] });
    expect((await run('policy', 'show', '--json')).out).toBe(before);
  });

  test.each([
    ['nothing in it', ' \n', /No input .* pass a file name, or pipe JSON to standard input/],
    ['no JSON', 'deny: all', /is not JSON/],
    ['another word', '{"denied": []}', /Unknown field "denied" .* a policy has deny, ask, allow/],
    ['no rules', '{}', /The document has no rules/],
    ['a list', '[]', /must contain a JSON object/],
    ['another agent', '{"agent": "b", "deny": []}', /is for the agent "b", not for a/],
    ['a bad pattern', '{"deny": [{"tool": "bash", "params": {"command": "!x"}}]}', /command/],
    ['a bad rule', '{"deny": [{"tol": "bash"}]}', /deny\[0\]/],
  ])('rejects a document with %s, in one line', async (_, stdin, message) => {
    const refused = await runIn({ stdin }, 'policy', 'set', '--agent', 'a');
    expect(refused).toMatchObject({ code: 2, out: '' });
    expect(refused.err).toMatch(message);
    expect(refused.err.trimEnd()).not.toContain('\n');
  });

  test('reports a missing file', async () => {
    const missing = await run('policy', 'set', '/nowhere/rules.json');
    expect(missing).toMatchObject({ code: 2 });
    expect(missing.err).toContain('No such file: /nowhere/rules.json');
  });
});

describe('audit', () => {
  test('lists entries with filters', async () => {
    await run('keys', 'create', 'audited');
    const list = await run('audit', 'list', '--action', 'key.created');
    const [head, row] = list.out.split('\n');
    expect(head).toMatch(/^SEQ +AT +ACTION +WHO +WHAT$/);
    expect(row).toMatch(/^\d+ +\S+ \S+Z +key\.created +key bootstrap +.*name=audited/);
    const { runId } = await waitingNote(fixture, 'audited');
    const entries = values<{ what: { runId: string } }>(
      await run('audit', 'list', '--run', runId, '--json'),
    );
    expect(entries.length).toBeGreaterThan(0);
    expect(new Set(entries.map(({ what }) => what.runId))).toEqual(new Set([runId]));
    expect((await run('audit', 'list', '--action', 'tea.made')).code).toBe(2);
    const none = await run('audit', 'list', '--until', '2020-01-01');
    expect(none).toMatchObject({ code: 0, out: '', err: 'No matching entries.\n' });
  });

  describe('exported to a file', () => {
    let lines: readonly string[];
    let cursor: string;
    let publicKey: string;

    beforeAll(async () => {
      for (const name of ['one', 'two', 'three']) await run('keys', 'create', name);
      const exported = await run('audit', 'export');
      expect(exported).toMatchObject({ code: 0, err: '' });
      lines = exported.out.trimEnd().split('\n');
      const head = JSON.parse(lines.at(-1) ?? '') as { cursor: string; publicKey: string };
      ({ cursor } = head);
      publicKey = file('relay-audit.pem', head.publicKey);
    });

    const verify = (content: readonly string[], ...args: readonly string[]) =>
      run('audit', 'verify', '--file', file('audit.jsonl', `${content.join('\n')}\n`), ...args);

    test('is verified with the public key, without a server', async () => {
      const path = file('audit.jsonl', `${lines.join('\n')}\n`);
      const args = ['audit', 'verify', '--file', path, '--public-key', publicKey];
      const env = { RELAY_URL: 'http://127.0.0.1:1', RELAY_API_KEY: '' };
      const whole = await runIn({ env }, ...args);
      expect(whole).toMatchObject({ code: 0, err: '' });
      const last = lines.length - 1;
      expect(whole.out).toBe(
        `${path} is intact: ${last} entries up to ${last}, cursor ${cursor}.\n`,
      );
      expect(values(await run(...args, '--json'))).toMatchObject([{ ok: true, entries: last }]);
      expect((await verify(lines)).err).toContain('--public-key verifies that');
    });

    test('continues after a cursor', async () => {
      await run('keys', 'create', 'four');
      const next = (await run('audit', 'export', '--after', cursor)).out.trimEnd().split('\n');
      expect(next[0]).toContain('"four"');
      const after = ['--after', cursor, '--public-key', publicKey];
      expect(await verify(next, ...after)).toMatchObject({ code: 0 });
      const whole = await verify(lines, ...after);
      expect(whole.err).toContain('does not continue after the given cursor');
      expect(whole.code).toBe(1);
      const limited = await run('audit', 'export', '--limit', '2');
      expect(limited.out.trimEnd().split('\n')).toHaveLength(3);
      const unknown = await run('audit', 'export', '--after', `1.${'0'.repeat(64)}`);
      expect(unknown).toMatchObject({ code: 5, out: '' });
    });

    test.each<[string, (lines: readonly string[]) => readonly string[], RegExp]>([
      [
        'a changed line',
        (all) => all.with(1, all[1]?.replace('"action":"', '"action":"un') ?? ''),
        /Entry 2 differs from its text/,
      ],
      [
        'a changed line and its text',
        (all) => all.with(1, all[1]?.replaceAll(/(action\\*":\\*")/g, '$1un') ?? ''),
        /Entry 2 was changed, or does not follow 1/,
      ],
      ['a removed line', (all) => all.toSpliced(1, 1), /Entry 3 was changed, or does not follow 1/],
      [
        'its first line removed',
        (all) => all.slice(1),
        /Entry 2 was changed, or does not follow 0/,
      ],
      ['its last entry removed', (all) => all.toSpliced(-2, 1), /The last entries are missing/],
      ['no head', (all) => all.slice(0, -1), /The file has no head: it is not complete/],
      [
        'half a line at its end',
        (all) => [...all.slice(0, -1), all.at(-1)?.slice(0, 40) ?? ''],
        /Line \d+ is neither an entry nor a head/,
      ],
      ['nothing', () => [], /The file has no head/],
      ['an entry without its text', (all) => all.with(0, '{"type":"entry","seq":1}'), /Line 1 is/],
      [
        'a head without a key',
        (all) => [...all.slice(0, -1), '{"type":"head"}'],
        /is neither an entry/,
      ],
    ])('with %s is not intact', async (_, change, problem) => {
      const broken = await verify(change(lines), '--public-key', publicKey);
      expect(broken).toMatchObject({ code: 1, out: '' });
      expect(broken.err).toMatch(problem);
      expect(broken.err).toContain('[audit_broken]');
      expect(broken.err.trimEnd()).not.toContain('\n');
    });

    test('that another key signed is not intact', async () => {
      const other = generateKeyPairSync('ed25519').publicKey;
      const wrong = file('other.pem', other.export({ format: 'pem', type: 'spki' }).toString());
      const refused = await verify(lines, '--public-key', wrong);
      expect(refused).toMatchObject({ code: 1, out: '' });
      expect(refused.err).toContain('The signature of the head is not valid for this public key');
      const odd = await verify(lines, '--public-key', file('odd.pem', 'no key'));
      expect(odd.err).toContain('The public key is not in PEM');
      expect(odd.code).toBe(1);
    });

    test('is not confused with the other sources of a trail', async () => {
      const missing = await run('audit', 'verify', '--file', '/nowhere/audit.jsonl');
      expect(missing).toMatchObject({ code: 2 });
      expect(missing.err).toContain('No such file: /nowhere/audit.jsonl');
      expect((await verify(lines, '--against', 'head.json')).code).toBe(2);
      expect((await verify(lines, '--backup', dir)).code).toBe(2);
      const alone = await run('audit', 'verify', '--public-key', publicKey);
      expect(alone).toMatchObject({ code: 2 });
      expect(alone.err).toContain('--public-key and --after require --file');
    });
  });

  test('is verified, also against a saved head, and the first bad entry is reported', async () => {
    const head = file('head.json', (await run('audit', 'head', '--json')).out);
    const { seq } = values<{ seq: number }>(await run('audit', 'head', '--json'))[0] ?? { seq: 0 };
    await run('keys', 'create', 'later');
    const whole = await run('audit', 'verify', '--against', head);
    expect(whole.code).toBe(0);
    expect(whole.out).toMatch(
      /^The audit trail is intact: \d+ entries, up to [0-9a-f]{64}, and contains /,
    );

    const bad = await run('audit', 'verify', '--against', file('odd.json', { sequence: 1 }));
    expect(bad).toMatchObject({ code: 2 });
    expect(bad.err).toContain('The file contains no audit head');

    const db = new DatabaseSync(join(fixture.server.dataDir, 'relay.db'));
    const { changes } = db.prepare('delete from audit_entries where seq = ?').run(seq);
    db.close();
    expect(changes).toBe(1);
    const broken = await run('audit', 'verify');
    expect(broken).toMatchObject({ code: 1, out: '' });
    expect(broken.err).toContain(`The audit trail was modified at entry ${seq}: `);
    expect(broken.err).toContain('[audit_broken]');
    const json = await run('audit', 'verify', '--json');
    expect(json.code).toBe(1);
    expect(values(json)).toMatchObject([{ ok: false, firstBad: { seq } }]);
  });
});

describe('webhooks', () => {
  let hook: Server;
  let url: string;
  let received = 0;
  beforeAll(async () => {
    hook = createServer((_, answer) => {
      received += 1;
      answer.end();
    });
    await new Promise<void>((resolve) => hook.listen(0, '127.0.0.1', resolve));
    url = `http://127.0.0.1:${(hook.address() as AddressInfo).port}/hook`;
  });
  afterAll(() => void hook.close());

  test('are added, delivered, listed and deleted; only the secret is on standard output', async () => {
    const added = await run('webhooks', 'add', url, '--events', 'run.ended');
    expect(added).toMatchObject({ code: 0 });
    expect(added.out).toMatch(/^\S{20,}\n$/);
    const [webhook] = values<{ id: string }>(await run('webhooks', 'list', '--json'));
    const id = webhook?.id ?? '';
    expect((await run('webhooks', 'list')).out).toContain(`run.ended  ${url}`);
    await (await fixture.client.runs.create({ model: 'demo', input: 'say 1' })).result();
    const deliveries = async () => (await run('webhooks', 'deliveries', id)).out;
    await expect.poll(deliveries, { timeout: 10_000 }).toMatch(/ run\.ended +delivered +1 /);
    const [delivery] = values<{ id: string }>(await run('webhooks', 'deliveries', id, '--json'));
    const again = await run('webhooks', 'redeliver', id, delivery?.id ?? '');
    expect(again).toMatchObject({ code: 0, out: `${delivery?.id} will be sent again.\n` });
    await expect.poll(() => received, { timeout: 10_000 }).toBe(2);
    for (const named of [delivery?.id.slice(-6) ?? '', 'latest']) {
      expect(await run('webhooks', 'redeliver', 'latest', named)).toMatchObject({ out: again.out });
    }
    expect(await run('webhooks', 'redeliver', id)).toMatchObject({ code: 2 });
    expect((await run('webhooks', 'delete', id)).out).toBe(`Deleted ${id}.\n`);
    expect(await run('webhooks', 'deliveries', id)).toMatchObject({ code: 3 });
  });

  test('are limited to a session, and the list says so', async () => {
    const url = 'http://127.0.0.1:9/hook';
    await run('webhooks', 'add', url, '--events', 'message.sent', '--handle', 'ada');
    expect((await run('webhooks', 'list')).out).toContain(`message.sent handle=ada  ${url}`);
  });
});
