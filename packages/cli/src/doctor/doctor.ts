/** Everything that commonly goes wrong, in the order in which one thing rests on another. */
import { type Connection, isLocal } from '../connection.ts';
import { versionOfThis } from '../program.ts';
import type { World } from '../world.ts';
import { examineData } from './data.ts';
import { type Finding, ok, wrong } from './finding.ts';
import { examineKey } from './key.ts';
import { examineServer } from './server.ts';

export interface Scope {
  readonly world: World;
  readonly connection: Connection;
  /** Its data folder is not on this machine. */
  readonly isRemote: boolean;
}

export async function* examinations(scope: Scope): AsyncGenerator<Finding> {
  yield runtime(process.versions.node);
  const { connection, world } = scope;
  if (!scope.isRemote && isLocal(connection.url)) yield* examineData(world);
  let isUp = false;
  for await (const finding of examineServer(connection.url, versionOfThis())) {
    if (finding.check === 'server') isUp = finding.state === 'ok';
    yield finding;
  }
  if (isUp) yield* examineKey(connection);
}

export function runtime(version: string): Finding {
  const major = Number.parseInt(version, 10);
  if (major >= 24) return ok('node', `Node ${version}`);
  return wrong('node', `Node ${version} is too old`, 'install Node 24 or newer');
}
