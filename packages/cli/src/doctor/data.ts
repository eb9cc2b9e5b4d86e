/** The installation on this machine: settings, data folder, store and master key. */
import { accessSync, constants, existsSync, statfsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Inspection } from '@relay/server/operator';
import { setting, type World } from '../world.ts';
import { type Finding, ok, warning, wrong } from './finding.ts';

const littleSpace = 1024 ** 3;

export async function* examineData({ env, cwd }: World): AsyncGenerator<Finding> {
  const { inspectStore } = await import('@relay/server/operator');
  let inspection: Inspection;
  try {
    inspection = await inspectStore({ env, cwd });
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    yield wrong('settings', message, 'correct the variable; the server would not start with it');
    return;
  }
  yield ok('settings', `The server would listen on ${inspection.host}, port ${inspection.port}`);
  for (const sentence of inspection.unknownSettings) {
    yield warning('settings', sentence, 'correct its name, or unset it');
  }
  const { dataDir, store } = inspection;
  if (inspection.kind === 'sqlite' && !existsSync(dataDir)) {
    yield warning(
      'data folder',
      `There is no ${dataDir} yet`,
      setting({ env }, 'RELAY_DATA_DIR') === undefined
        ? 'the first start makes it; if it is elsewhere, set RELAY_DATA_DIR or go where it is'
        : 'the first start makes it; if it is elsewhere, correct RELAY_DATA_DIR',
    );
    return;
  }
  if (existsSync(dataDir)) yield* folder(dataDir);
  yield storeFinding(inspection, store);
  yield keyFinding(inspection);
  if (inspection.unfinishedRotation !== undefined) {
    yield warning(
      'rotation',
      `A rotation of the master key left ${inspection.unfinishedRotation}`,
      'stop the server and run "relay rotate-master-key" again, or delete the file if it was taken over',
    );
  }
}

function* folder(dataDir: string): Generator<Finding> {
  try {
    accessSync(dataDir, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch {
    yield wrong(
      'data folder',
      `${dataDir} cannot be written here`,
      `give it to this user: chown -R "$USER" ${dataDir}`,
    );
    return;
  }
  const open = ['.', 'relay.db', 'master-key', 'first-key']
    .map((name) => join(dataDir, name))
    .filter((path) => existsSync(path) && (statSync(path).mode & 0o077) !== 0);
  yield open.length === 0
    ? ok('data folder', `${dataDir} is its owner's alone`)
    : wrong('data folder', `Others can read ${open.join(', ')}`, `chmod go= ${open.join(' ')}`);
  const { bavail, bsize } = statfsSync(dataDir);
  const free = bavail * bsize;
  if (free < littleSpace) {
    const mend = 'make room: a full disk stops all runs';
    yield warning('disk', `Only ${Math.round(free / 1024 ** 2)} MB are free there`, mend);
  }
  if (existsSync(join(dataDir, 'first-key'))) {
    yield warning(
      'first key',
      `The first key still lies in ${join(dataDir, 'first-key')}`,
      'fine while you try things; later put it where you keep secrets, and delete the file',
    );
  }
}

function storeFinding({ kind }: Inspection, store: Inspection['store']): Finding {
  const name = kind === 'sqlite' ? 'The store' : 'The database';
  if (store === 'usable') return ok('store', `${name} can be read and is whole`);
  if (store === 'absent')
    return warning('store', 'There is no store yet', 'the first start makes it');
  const mend =
    kind === 'sqlite'
      ? 'check the disk; "relay restore" makes a folder from a backup'
      : 'check RELAY_DATABASE_URL, its role and password, and whether the database runs';
  return wrong('store', store.problem, mend);
}

function keyFinding({ masterKey, keyFile, kind }: Inspection): Finding {
  const where = keyFile ?? 'RELAY_MASTER_KEY';
  if (typeof masterKey === 'object') {
    return wrong(
      'master key',
      masterKey.problem,
      'bring the right key back from where you keep it',
    );
  }
  switch (masterKey) {
    case 'fits':
      return ok('master key', `The key in ${where} opens what is sealed`);
    case 'unused':
      return ok('master key', 'Nothing is sealed yet');
    case 'wrong':
      return wrong(
        'master key',
        `The key in ${where} is not the one that the credentials are sealed with`,
        'bring the right one back, or set RELAY_MASTER_KEY_PREVIOUS to the old one for one start',
      );
    case 'missing':
      return kind === 'postgres'
        ? wrong('master key', 'RELAY_MASTER_KEY is not set', 'set it to the same key on every node')
        : wrong(
            'master key',
            `There is no ${where}`,
            'bring it back from where you keep it, before the next start',
          );
  }
}
