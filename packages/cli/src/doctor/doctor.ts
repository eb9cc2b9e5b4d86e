/** The checks of `relay doctor`, each after those that it depends on. */
import { type CliEnvironment, setting } from '../environment.ts';
import { isLocal, registeredAt } from '../local-server.ts';
import { cliVersion } from '../program.ts';
import { checkData } from './data.ts';
import { type Finding, ok, warning, wrong } from './finding.ts';
import { type CheckedConnection, checkKey } from './key.ts';
import { checkServer } from './server.ts';

/** `checksData`: whether to check the data folder, if the server is on this machine. */
export async function* runChecks(
  environment: CliEnvironment,
  connection: CheckedConnection,
  checksData: boolean,
): AsyncGenerator<Finding> {
  yield checkNode(process.versions.node);
  const isDataChecked = checksData && isLocal(connection.url);
  if (isDataChecked) yield* checkData(environment);
  let isUp = false;
  for await (const finding of checkServer(connection.url, cliVersion())) {
    if (finding.check === 'server') isUp = finding.state === 'ok';
    yield finding;
  }
  const checked = isDataChecked ? setting(environment, 'RELAY_DATA_DIR') : undefined;
  const used = registeredAt(environment, connection.url)?.dataDir;
  if (isUp && checked !== undefined && used !== undefined && used !== checked) {
    const message = `This server uses another data folder than the one that was checked: ${used}`;
    yield warning('server', message, `check that one with --data-dir ${used}`);
  }
  if (isUp || connection.keyProblem !== undefined) yield* checkKey(connection);
}

export function checkNode(version: string): Finding {
  const major = Number.parseInt(version, 10);
  if (major >= 24) return ok('node', `Node ${version}`);
  return wrong('node', `Node ${version} is too old`, 'install Node 24 or newer');
}
