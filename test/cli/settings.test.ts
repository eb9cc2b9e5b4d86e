import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { values } from '../support/cli.ts';
import { cliFixture } from './fixture.ts';

const fixture = cliFixture();
const { run, runIn } = fixture;

function folder(): string {
  const dir = mkdtempSync(join(tmpdir(), 'relay-cli-'));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

test('keys are created, listed without their secrets, and revoked', async () => {
  const made = await run('keys', 'create', 'ci', '--owner', 'build team', '--expires', '90d');
  const apiKey = made.out.trim();
  // Only the key, for use in scripts.
  expect(apiKey).toMatch(/^relay_live_[0-9a-f]+$/);
  const allowed = await runIn({ env: { RELAY_API_KEY: apiKey } }, 'runs', 'list');
  expect(allowed.code).toBe(0);
  const forbidden = await runIn({ env: { RELAY_API_KEY: apiKey } }, 'keys', 'list');
  expect(forbidden).toMatchObject({ code: 4, out: '' });
  expect(forbidden.err).toContain('[scope_required]');
  const list = await run('keys', 'list', '--json');
  expect(list.out).not.toContain(apiKey.slice(-20));
  const key = values<{ id: string; name: string }>(list).find(({ name }) => name === 'ci');
  expect(key).toMatchObject({ owner: 'build team', role: 'operator', scopes: ['read', 'runs'] });
  expect((await run('keys', 'revoke', key?.id ?? '')).code).toBe(0);
  const revoked = await runIn({ env: { RELAY_API_KEY: apiKey } }, 'runs', 'list');
  expect(revoked).toMatchObject({ code: 4, out: '' });
  expect(revoked.err).toContain('rejects the key from $RELAY_API_KEY [unauthorized]');
  expect(revoked.err).toContain('unset it to use the key of "relay login"');
  expect((await run('keys', 'list')).out).toMatch(/revoked +operator +read runs.*ci/);
});

test('console prints a link that signs in once, and the sign-in is among the keys', async () => {
  // Signing in with the first key would delete its file.
  const made = await run('keys', 'create', 'signing in', '--role', 'viewer');
  const env = { RELAY_API_KEY: made.out.trim() };
  const printed = await runIn({ env }, 'console');
  expect(printed.code).toBe(0);
  expect(printed.err).toContain('within 15 minutes');
  const url = new URL(printed.out.trim());
  expect(`${url.origin}${url.pathname}`).toBe(`${fixture.server.url}/console/login`);
  const link = url.hash.slice(1);
  expect(await fixture.client.console.login({ link })).toMatchObject({ kind: 'console' });
  await expect(fixture.client.console.login({ link })).rejects.toMatchObject({
    code: 'unauthorized',
    message: expect.stringContaining('`relay console` prints a new one'),
  });
  const keys = values<{ kind: string }>(await run('keys', 'list', '--json'));
  expect(keys.map(({ kind }) => kind)).toContain('console');
  const [json] = values<{ url: string; expiresAt: string }>(
    await runIn({ env }, 'console', '--json'),
  );
  expect(json).toEqual({
    url: expect.stringContaining('#relay_link_'),
    expiresAt: expect.any(String),
  });
  const nowhere = await runIn({ env: { RELAY_URL: 'http://127.0.0.1:1' } }, 'console');
  expect(nowhere).toMatchObject({ code: 6, out: '' });
});

test('keys are rotated; only the new secret is on standard output', async () => {
  const [old] = values<{ id: string; apiKey: string }>(
    await run('keys', 'create', 'rotating', '--expires', '90d', '--json'),
  );
  const env = { RELAY_API_KEY: old?.apiKey ?? '' };
  const rotated = await run('keys', 'rotate', old?.id ?? '', '--overlap', '12h');
  expect(rotated.code).toBe(0);
  expect(rotated.out).toMatch(/^relay_live_[0-9a-f]{72}\n$/);
  expect(rotated.err).toMatch(
    new RegExp(`^API key rotating, id \\S+ \\(shown only once\\). The key ${old?.id} works until`),
  );
  expect((await runIn({ env }, 'runs', 'list')).code).toBe(0);
  expect((await runIn({ env: { RELAY_API_KEY: rotated.out.trim() } }, 'runs', 'list')).code).toBe(
    0,
  );

  const again = await run('keys', 'rotate', old?.id ?? '');
  expect(again).toMatchObject({ code: 5, out: '' });
  expect(again.err).toMatch(/was rotated already: rotate the key \S+, .* \[key_ended\]/);
  const [, id = ''] = /rotate the key (\S+),/.exec(again.err) ?? [];
  const args = ['keys', 'rotate', id, '--overlap', '0', '--expires', '2099-01-01', '--json'];
  const [last] = values<{ replaces: string; expiresAt: string }>(await run(...args));
  expect(last).toMatchObject({ replaces: id, expiresAt: '2099-01-01T00:00:00.000Z' });
  const ended = await runIn({ env: { RELAY_API_KEY: rotated.out.trim() } }, 'runs', 'list');
  expect(ended.code).toBe(4);
});

test.each(['soon', '-1', '12', ''])('keys are not rotated with the overlap %j', async (overlap) => {
  const refused = await run('keys', 'rotate', 'KEY', `--overlap=${overlap}`);
  expect(refused).toMatchObject({ code: 2, out: '' });
});

test('keys accept several scopes and reject unknown ones', async () => {
  const two = await run('keys', 'create', 'ada', '--scopes', 'runs', 'approve', '--json');
  expect(values(two)[0]).toMatchObject({ scopes: ['runs', 'approve'], apiKey: expect.any(String) });
  expect((await run('keys', 'create', 'eve', '--scopes', 'everything')).code).toBe(2);
});

test('keys get a role and groups', async () => {
  const made = await run('keys', 'create', 'ada', '--role', 'approver', '--group', 'a', '--json');
  expect(values(made)[0]).toMatchObject({ role: 'approver', groups: ['a'] });
  expect((await run('keys', 'create', 'eve', '--role', 'root')).code).toBe(2);
});

test('the secret of a credential comes from standard input, never from an argument', async () => {
  const secret = 'sk-piped-secret-0042';
  const set = await runIn(
    { stdin: `${secret}\n` },
    'credentials',
    'set',
    'openai',
    '--label',
    'prod',
  );
  expect(set).toMatchObject({ code: 0, out: 'Stored the key …0042 for openai.\n' });
  const list = await run('credentials', 'list', '--json');
  expect(values(list)).toEqual([expect.objectContaining({ provider: 'openai', last4: '0042' })]);
  for (const outcome of [set, list, await run('credentials', 'list')]) {
    expect(outcome.out + outcome.err).not.toContain('piped-secret');
  }
  const asArgument = await run('credentials', 'set', 'openai', secret);
  expect(asArgument.code).toBe(2);
  expect((await run('credentials', 'set', 'openai', '--api-key', secret)).code).toBe(2);
  const empty = await runIn({ stdin: '\n' }, 'credentials', 'set', 'openai');
  expect(empty).toMatchObject({ code: 2, err: 'relay: No secret was given [usage]\n' });
  expect(await run('credentials', 'delete', 'openai')).toMatchObject({ code: 0 });
  expect((await run('credentials', 'list')).err).toContain('only the model "demo"');
});

describe('credentials delete with a key in the environment of the server', () => {
  const withKey = cliFixture({
    OPENAI_API_KEY: 'sk-environment-0007',
    // This process registers one server in a folder.
    XDG_STATE_HOME: '/nowhere',
  });

  test('says that this key is used from now on, and that it cannot be deleted', async () => {
    await withKey.runIn({ stdin: 'sk-stored-0042\n' }, 'credentials', 'set', 'openai');
    const deleted = await withKey.run('credentials', 'delete', 'openai');
    expect(deleted).toMatchObject({ code: 0, out: 'Deleted the key for openai.\n' });
    expect(deleted.err).toContain('now uses the key …0007 from its environment');
    const again = await withKey.run('credentials', 'delete', 'openai');
    expect(again).toMatchObject({ code: 1, out: '' });
    expect(again.err).toContain('[not_stored]');
  });
});

test('tools are listed with their description and whether they need approval', async () => {
  const { out } = await run('tools');
  expect(out).toMatch(/calculator +no +\S/);
  expect(out).toMatch(/send_note +yes +\S/);
  expect(values(await run('tools', '--json'))).toContainEqual(
    expect.objectContaining({ name: 'calculator', inputSchema: expect.anything() }),
  );
});

test('memories are added, found, listed, deleted and cleared', async () => {
  const added = await run('memories', 'add', 'Releases', 'go', 'out', 'on', 'Tuesdays', '--json');
  const [memory] = values<{ id: string }>(added);
  expect(memory).toMatchObject({ namespace: 'default', text: 'Releases go out on Tuesdays' });
  await run('memories', 'add', 'Lunch is at noon', '--namespace', 'team', '--ttl', '1d');
  const found = await run('memories', 'search', 'release', 'tuesdays');
  expect(found.out).toMatch(new RegExp(`0\\.\\d\\d +words +${memory?.id}.*Tuesdays`));
  expect(found.out).not.toContain('Lunch');
  expect(values(await run('memories', 'list', '--json'))).toHaveLength(2);
  expect(values(await run('memories', 'list', '--namespace', 'team', '--json'))).toEqual([
    expect.objectContaining({ text: 'Lunch is at noon', expiresAt: expect.any(String) }),
  ]);
  expect((await run('memories', 'delete', memory?.id ?? '')).code).toBe(0);
  expect((await run('memories', 'search', 'tuesdays')).err).toBe(
    'No memory in the namespace default matches. Others: team. Search one with --namespace.\n',
  );
  const unconfirmed = await run('memories', 'clear', 'team');
  expect(unconfirmed.code).toBe(2);
  expect(values(await run('memories', 'list', '--json'))).toHaveLength(1);
  expect((await run('memories', 'clear', 'team', '--yes')).code).toBe(0);
  expect((await run('memories', 'list')).err).toContain('No memories.');
});

test('the key in the data folder is used for a local server only', async () => {
  const { dataDir, url } = fixture.server;
  const state = { XDG_STATE_HOME: process.env['XDG_STATE_HOME'] ?? '' };
  const env = { RELAY_API_KEY: '', RELAY_DATA_DIR: dataDir, ...state };
  expect((await runIn({ env }, 'tools')).code).toBe(0);
  expect((await runIn({ env: { ...env, RELAY_DATA_DIR: folder() } }, 'keys', 'list')).code).toBe(4);
  const { connectionOf } = await import('../../packages/cli/src/connection.ts');
  const environment = {
    env,
    cwd: '/',
    stdin: process.stdin,
    stdout: process.stdout,
    stderr: process.stderr,
  };
  const own = readFileSync(join(dataDir, 'cli-key'), 'utf8').trim();
  expect(connectionOf(environment, { url }).apiKey).toBe(own);
  expect(connectionOf(environment, { url: 'https://relay.example.com' }).apiKey).toBeUndefined();
});

test('a profile has a server and its key, in a private file', async () => {
  const dir = folder();
  const profiles = join(dir, 'profiles.json');
  const keyFile = join(dir, 'key');
  writeFileSync(keyFile, `${fixture.server.apiKey}\n`, { mode: 0o600 });
  const one = { url: fixture.server.url, keyFile };
  writeFileSync(profiles, JSON.stringify({ one }), { mode: 0o600 });
  const env = { RELAY_URL: 'http://127.0.0.1:1', RELAY_API_KEY: '', RELAY_PROFILES: profiles };
  expect((await runIn({ env }, 'keys', 'list', '--profile', 'one')).code).toBe(0);
  expect((await runIn({ env: { ...env, RELAY_PROFILE: 'one' } }, 'keys', 'list')).code).toBe(0);
  const other = await runIn({ env }, 'keys', 'list', '--profile', 'two');
  expect(other).toMatchObject({ code: 2 });
  expect(other.err).toContain('profiles there: one');
  // The key of a profile is sent to its server only.
  const both = await runIn(
    { env },
    'keys',
    'list',
    '--profile',
    'one',
    '--url',
    fixture.server.url,
  );
  expect(both).toMatchObject({ code: 2 });
  const withProfile = { ...env, RELAY_PROFILE: 'one' };
  expect(
    (await runIn({ env: withProfile }, 'keys', 'list', '--url', fixture.server.url)).code,
  ).toBe(4);
  chmodSync(keyFile, 0o644);
  const open = await runIn({ env }, 'keys', 'list', '--profile', 'one');
  expect(open).toMatchObject({ code: 1 });
  expect(open.err).toContain(`chmod 600 ${keyFile}`);
});

test('an unreachable server exits with 6, an invalid URL with 2', async () => {
  for (const command of ['list', 'tail']) {
    const unreachable = await runIn({ env: { RELAY_URL: 'http://127.0.0.1:1' } }, 'runs', command);
    expect(unreachable).toMatchObject({ code: 6, out: '' });
    expect(unreachable.err).toMatch(/^relay: .*\[network_error\] – is the server running\?.*\n$/);
  }
  for (const url of ['ftp://x', 'nonsense', 'http://user:secret@127.0.0.1:4000']) {
    const wrong = await run('runs', 'list', '--url', url);
    expect(wrong.code).toBe(2);
    expect(wrong.err).not.toContain('secret@');
  }
});

test('a key is never an argument', async () => {
  for (const option of ['--key', '--api-key', '--apikey=x']) {
    const refused = await run('runs', 'list', option, 'relay_live_x');
    expect(refused.code).toBe(2);
    expect(refused.err).toContain('a key is never an argument: set RELAY_API_KEY');
  }
});
