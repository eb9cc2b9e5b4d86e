/** Checks the installation on this machine: settings, data folder, store and master key. */
import { accessSync, constants, existsSync, statfsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { ConfigCheck, Inspection } from '@relay/server/operator';
import { type CliEnvironment, relay } from '../environment.ts';
import { type Finding, ok, warning, wrong } from './finding.ts';

const minFreeBytes = 1024 ** 3;

export async function* checkData({ env, cwd }: CliEnvironment): AsyncGenerator<Finding> {
  const { checkConfigFile, inspectStore } = await import('@relay/server/operator');
  let inspection: Inspection;
  try {
    inspection = await inspectStore({ env, cwd });
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    yield wrong('settings', message, 'correct the variable; the server does not start with it');
    return;
  }
  // A server that runs may have been started with others.
  const address = `${inspection.host}, port ${inspection.port}`;
  yield ok('settings', `Valid; a server started here listens on ${address}`);
  for (const message of inspection.unknownSettings) {
    yield warning('settings', message, 'correct its name, or unset it');
  }
  yield* configFindings(await checkConfigFile({ env, cwd }));
  const { dataDir, sandbox } = inspection;
  yield sandbox.isMissing
    ? warning(
        'sandbox',
        sandbox.summary,
        'install bubblewrap, or set RELAY_SANDBOX=off to run the commands of agents without a sandbox',
      )
    : ok('sandbox', sandbox.summary);
  if (inspection.kind === 'sqlite' && !existsSync(dataDir)) {
    yield warning(
      'data folder',
      `${dataDir} does not exist yet`,
      'the first start creates it; if it is elsewhere, use --data-dir or set RELAY_DATA_DIR',
    );
    return;
  }
  if (existsSync(dataDir)) yield* checkFolder(dataDir);
  yield storeFinding(inspection);
  yield keyFinding(inspection);
  yield* rowFindings(inspection);
  if (inspection.unfinishedRotation !== undefined) {
    yield warning(
      'rotation',
      `An unfinished rotation of the master key left ${inspection.unfinishedRotation}`,
      `stop the server and run "${relay} rotate-master-key" again, or delete the file if its key is in use`,
    );
  }
}

function* configFindings(check: ConfigCheck): Generator<Finding> {
  if (check.state === 'absent') return;
  if (check.state === 'valid') {
    const { path, agents, tools, mcpServers } = check;
    const servers = mcpServers.length === 0 ? '' : `, MCP servers: ${mcpServers.join(', ')}`;
    yield ok('config', `${path} is valid (agents: ${agents}, tools: ${tools}${servers})`);
    return;
  }
  const { problem, excerpt } = check;
  const fix = 'correct it; the server does not start with it';
  yield { ...wrong('config', problem, fix), excerpt };
}

function* checkFolder(dataDir: string): Generator<Finding> {
  try {
    accessSync(dataDir, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch {
    yield wrong(
      'data folder',
      `${dataDir} is not writable`,
      `make this user its owner: chown -R "$USER" ${dataDir}`,
    );
    return;
  }
  const open = ['.', 'relay.db', 'master-key', 'first-key', 'cli-key']
    .map((name) => join(dataDir, name))
    .filter((path) => existsSync(path) && (statSync(path).mode & 0o077) !== 0);
  yield open.length === 0
    ? ok('data folder', `${dataDir} is private to its owner`)
    : wrong(
        'data folder',
        `Other users can read ${open.join(', ')}`,
        `chmod go= ${open.join(' ')}`,
      );
  const { bavail, bsize } = statfsSync(dataDir);
  const free = bavail * bsize;
  const text = `${Math.round(free / 1024 ** 2).toLocaleString('en')} MB of disk space are free`;
  yield free < minFreeBytes
    ? warning('disk', `Only ${text}`, 'free disk space: a full disk stops all runs')
    : ok('disk', text);
  if (existsSync(join(dataDir, 'first-key'))) {
    yield warning(
      'first key',
      `The first API key is still in ${join(dataDir, 'first-key')}`,
      `"${relay} login" makes a key of its own for the CLI and deletes it`,
    );
  }
}

function storeFinding({ kind, store }: Inspection): Finding {
  const name = kind === 'sqlite' ? 'The store' : 'The database';
  if (store === 'usable') return ok('store', `${name} is readable and intact`);
  if (store === 'absent')
    return warning('store', 'No store exists yet', 'the first start creates it');
  const fix =
    kind === 'sqlite'
      ? `check the disk and the version of Relay; "${relay} restore" creates a data folder from a backup`
      : 'check RELAY_DATABASE_URL, its role and password, the version of Relay, and whether the database is running';
  return wrong('store', store.problem, fix);
}

const maxShownRows = 5;

function* rowFindings({ masterKey, damagedRows }: Inspection): Generator<Finding> {
  if (masterKey !== 'fits') return;
  if (damagedRows.length === 0) {
    yield ok('rights', 'Keys, grants, policies and credentials are as Relay wrote them');
    return;
  }
  const shown = damagedRows.slice(0, maxShownRows);
  const names = shown.map(({ table, id, tenantId }) => `${table} ${id} of tenant ${tenantId}`);
  const more = damagedRows.length - shown.length;
  yield wrong(
    'rights',
    `Changed in the database past Relay: ${names.join(', ')}${more > 0 ? ` and ${more} more` : ''}`,
    'find out who can write to the database; delete these rows, or restore a backup, and set them again',
  );
}

function keyFinding({ masterKey, keyFile, kind }: Inspection): Finding {
  const where = keyFile ?? 'RELAY_MASTER_KEY';
  if (typeof masterKey === 'object') {
    return wrong('master key', masterKey.problem, 'restore the right key from your secret manager');
  }
  switch (masterKey) {
    case 'fits':
      return ok('master key', `The key in ${where} decrypts the credentials`);
    case 'unused':
      return ok('master key', 'Nothing is encrypted yet');
    case 'wrong':
      return wrong(
        'master key',
        `The credentials are encrypted with another key than the one in ${where}`,
        'restore the right key, or set RELAY_MASTER_KEY_PREVIOUS to the old one for the next start',
      );
    case 'missing':
      return kind === 'postgres'
        ? wrong('master key', 'RELAY_MASTER_KEY is not set', 'set it to the same key on every node')
        : wrong(
            'master key',
            `${where} is missing`,
            'restore it from your secret manager before the next start',
          );
  }
}
