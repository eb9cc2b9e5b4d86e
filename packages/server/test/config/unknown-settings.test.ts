import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { openServer } from '../../src/serve.ts';
import { knownSettings, unknownSettings } from '../../src/config/unknown-settings.ts';

const warningFor = (name: string) => unknownSettings({ [name]: 'sk-secret' })[0];

describe('unknownSettings', () => {
  it.each([
    ['RELAY_PROT', 'RELAY_PORT'],
    ['RELAY_PRT', 'RELAY_PORT'],
    ['RELAY_ALOWED_HOSTS', 'RELAY_ALLOWED_HOSTS'],
    ['RELAY_DATADIR', 'RELAY_DATA_DIR'],
    ['RELAY_MASTERKEY', 'RELAY_MASTER_KEY'],
    ['RELAY_MODEL', 'RELAY_DEFAULT_MODEL'],
    ['RELAY_DATABASE', 'RELAY_DATABASE_URL'],
    ['RELAY_APIKEY', 'RELAY_API_KEY'],
  ])('reports %s and suggests %s', (name, suggested) => {
    expect(warningFor(name)).toBe(
      `${name} is not a setting of Relay and is ignored; did you mean ${suggested}?`,
    );
  });

  it('names a variable without a suggestion if nothing is similar, and never with its value', () => {
    expect(warningFor('RELAY_COFFEE_MACHINE')).toBe(
      'RELAY_COFFEE_MACHINE is not a setting of Relay and is ignored',
    );
    expect(warningFor('RELAY_MASTERKEY')).not.toContain('sk-secret');
  });

  it('ignores known settings, settings of clients and tests, other variables and unset ones', () => {
    const known = Object.fromEntries(knownSettings().map((name) => [name, '1']));
    const more = { RELAY_TEST_POSTGRES: '1', RELAYS: '1', relay_port: '1', PATH: '/bin' };
    expect(unknownSettings({ ...known, ...more, RELAY_PROT: undefined })).toEqual([]);
  });
});

it('knows every setting that the packages read', () => {
  const packages = fileURLToPath(new URL('../../..', import.meta.url));
  const read = readdirSync(packages).flatMap((room) =>
    readdirSync(join(packages, room, 'src'), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts') && !/\.test\.ts$|testing\//.test(name))
      .flatMap((name) => [
        ...readFileSync(join(packages, room, 'src', name), 'utf8').matchAll(/'(RELAY_[A-Z_]+)'/g),
      ])
      .map(([, name = '']) => name)
      // What a command is given inside a sandbox is no setting.
      .filter((name) => name !== 'RELAY_COMMAND'),
  );
  expect(read.length).toBeGreaterThan(20);
  expect([...new Set(read)].filter((name) => !knownSettings().includes(name))).toEqual([]);
});

it('are logged as warnings at the start', async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'relay-unknown-'));
  const lines: string[] = [];
  const stderr = vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
    lines.push(String(text));
    return true;
  });
  onTestFinished(() => {
    stderr.mockRestore();
    rmSync(dataDir, { recursive: true, force: true });
  });
  const env = { RELAY_DATA_DIR: dataDir, RELAY_PROT: '4100', RELAY_LOG_LEVEL: 'warn' };
  const options = { env, cwd: dataDir, terminal: false, print: () => {} };
  const { stop, config } = await openServer(options);
  await stop();
  expect(config.port).toBe(4000);
  const warnings = lines.filter((line) => line.includes('RELAY_PROT'));
  expect(warnings).toHaveLength(1);
  expect(JSON.parse(warnings[0] ?? '')).toMatchObject({
    level: 'warn',
    msg: expect.stringContaining('did you mean RELAY_PORT?'),
  });
});
