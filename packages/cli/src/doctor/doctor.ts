/** The checks of `relay doctor`, each after those that it depends on. */
import type { CliEnvironment } from '../environment.ts';
import { isLocal } from '../local-server.ts';
import { cliVersion } from '../program.ts';
import { checkData } from './data.ts';
import { type Finding, ok, wrong } from './finding.ts';
import { type CheckedConnection, checkKey } from './key.ts';
import { checkServer } from './server.ts';

/** `checksData`: whether to check the data folder, if the server is on this machine. */
export async function* runChecks(
  environment: CliEnvironment,
  connection: CheckedConnection,
  checksData: boolean,
): AsyncGenerator<Finding> {
  yield checkNode(process.versions.node);
  if (checksData && isLocal(connection.url)) yield* checkData(environment);
  let isUp = false;
  for await (const finding of checkServer(connection.url, cliVersion())) {
    if (finding.check === 'server') isUp = finding.state === 'ok';
    yield finding;
  }
  if (isUp || connection.keyProblem !== undefined) yield* checkKey(connection);
}

export function checkNode(version: string): Finding {
  const major = Number.parseInt(version, 10);
  if (major >= 24) return ok('node', `Node ${version}`);
  return wrong('node', `Node ${version} is too old`, 'install Node 24 or newer');
}
