import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { CurrentKey } from '@relay/sdk';
import type { CliCommand, Context } from '../../command.ts';
import { checkedUrl, clientFor, connectionOf, writeCliKey } from '../../connection.ts';
import { CliError, exitCodes, isApiError } from '../../errors.ts';
import { setting, relay } from '../../environment.ts';
import { readSecret } from '../../input.ts';
import {
  existingStore,
  installationOf,
  keyFiles,
  localKey,
  localUrl,
  registeredAt,
  serverHere,
  withAddress,
} from '../../local-server.ts';
import {
  deleteProfile,
  localName,
  profilesPath,
  readProfiles,
  storeProfile,
  useOfProfile,
} from '../../profiles.ts';

export function registerLogin(program: CliCommand): void {
  program
    .command('login [server]')
    .description('sign in to a server, and keep its key on this machine')
    .option('--name <name>', 'name of the profile (default: the host of the server)')
    .examples(
      [
        'relay login',
        'relay login https://relay.example.com',
        'relay login https://relay.example.com --name prod < prod.key',
      ],
      "Without a URL, on the server's machine, it creates a key for the CLI in the data folder. For " +
        'another server it asks for a key, or reads it from standard input, and stores it as a profile.',
    )
    .handle(logIn);
  program
    .command('logout [profile]')
    .description("revoke the CLI's key on the server's machine, or remove a profile")
    .examples(
      ['relay logout', 'relay logout prod'],
      'Programs that use the revoked key, such as an open chat, need another one. The key of a profile ' +
        'stays valid.',
    )
    .handle(logOut);
}

interface LoginOptions {
  readonly name?: string;
}

async function logIn(
  context: Context<LoginOptions>,
  [given = context.options.url]: readonly (string | undefined)[],
): Promise<void> {
  const { environment } = context;
  const url = withAddress(environment, checkedUrl(given ?? localUrl(environment)));
  const isHere = given === undefined || registeredAt(environment, url) !== undefined;
  if (isHere && context.options.name === undefined) await logInHere(context, url);
  else await logInByKey(context, url);
}

/** Another server: its key comes from an administrator. */
async function logInByKey(context: Context<LoginOptions>, url: string): Promise<void> {
  const { environment, options, print } = context;
  await anonymous(url);
  const apiKey = await readSecret(environment, `API key for ${url}`);
  const key = await checkedKey(url, apiKey, 'the given key');
  const name = options.name ?? new URL(url).host;
  storeProfile(environment, name, { url, apiKey });
  const { isDefault, use } = useOfProfile(environment, name);
  print.result(
    { url, profile: name, isDefault, key },
    print.wrapped(
      `${signedIn(url, key)}\nStored as the profile ${name} in ${profilesPath(environment)}. ${use}`,
    ),
  );
}

/** The server on this machine: the access to its data folder is the proof. */
async function logInHere({ environment, print }: Context, url: string): Promise<void> {
  await anonymous(url);
  const dataDir = serverHere(environment, url)?.dataDir;
  if (dataDir === undefined) throw unregistered(environment, url);
  const path = join(dataDir, keyFiles.own);
  const key = (await heldKey(environment, url)) ?? (await createdKey(environment, url, dataDir));
  // Its holder has a key of its own now.
  rmSync(join(dataDir, keyFiles.first), { force: true });
  const text = `${signedIn(url, key)}\nThe key is in ${path}.`;
  print.result({ url, keyFile: path, key }, print.wrapped(text));
}

type Environment = Context['environment'];

/** Any program can listen on a port. What proves a server is its registration. */
function unregistered(environment: Environment, url: string): CliError {
  const named = setting(environment, 'RELAY_DATA_DIR');
  const user = named === undefined ? '' : ` with the data folder ${named}`;
  return new CliError(
    'server_not_registered',
    `The server at ${url} is not registered on this machine${user}`,
    {
      hint:
        `if it is yours, create a key with "${relay} bootstrap", and use it with ` +
        `"${relay} login ${url}" or RELAY_API_KEY`,
    },
  );
}

/** Makes the CLI's own key from the first key, if there is only that. */
async function heldKey(environment: Environment, url: string): Promise<CurrentKey | undefined> {
  const local = localKey(environment, url);
  if (local === undefined) return undefined;
  const { apiKey, path, dataDir, isFirst } = local;
  const connection = { url, apiKey, keyFrom: path, firstKeyIn: isFirst ? dataDir : undefined };
  try {
    const client = await clientFor(connection);
    const key = await client.keys.current();
    return isFirst && localKey(environment, url)?.isFirst === true ? undefined : key;
  } catch (error) {
    if (isApiError(error) && error.code === 'unauthorized') return undefined;
    throw error;
  }
}

async function createdKey(
  environment: Environment,
  url: string,
  dataDir: string,
): Promise<CurrentKey> {
  const { env, cwd } = existingStore(await installationOf(environment, { url }, dataDir));
  const { makeTenantKey, revokeTenantKey } = await import('@relay/server/operator');
  const made = await makeTenantKey({ env, cwd }, 'default', {
    name: 'cli',
    isForFirstHolder: true,
  });
  try {
    const key = await checkedKey(url, made.apiKey, `the key of the data folder ${dataDir}`);
    // One that the server rejects.
    rmSync(join(dataDir, keyFiles.own), { force: true });
    writeCliKey(dataDir, made.apiKey);
    return key;
  } catch (error) {
    await revokeTenantKey({ env, cwd }, made);
    throw error;
  }
}

/** Fails if no server responds, before anything is asked or created. */
async function anonymous(url: string): Promise<void> {
  const client = await clientFor({ url, apiKey: undefined, keyFrom: undefined });
  await client.health();
}

async function checkedKey(url: string, apiKey: string, which: string): Promise<CurrentKey> {
  const client = await clientFor({ url, apiKey, keyFrom: which });
  try {
    return await client.keys.current();
  } catch (error) {
    if (!isApiError(error) || error.code !== 'unauthorized') throw error;
    throw new CliError('unauthorized', `The server at ${url} rejects ${which}`, {
      exit: exitCodes.notAllowed,
      hint: 'it is mistyped, expired, revoked, or for another server; nothing was stored',
    });
  }
}

function signedIn(url: string, key: CurrentKey): string {
  const { name, tenant, scopes } = key;
  return `Signed in to ${url} with the key ${name} (tenant ${tenant.name}; ${scopes.join(', ')}).`;
}

async function logOut(context: Context, [given]: readonly string[]): Promise<void> {
  const { environment, print } = context;
  const named = given ?? context.connection.profile;
  const isLocalServer = named === localName && !Object.hasOwn(readProfiles(environment), localName);
  if (named !== undefined && !isLocalServer) {
    deleteProfile(environment, named);
    print.result(
      { profile: named, status: 'removed' },
      print.wrapped(
        `Removed the profile ${named}. Its key stays valid until it is revoked: "${relay} keys revoke".`,
      ),
    );
    return;
  }
  const { url } = isLocalServer
    ? connectionOf(environment, { profile: localName })
    : context.connection;
  const local = localKey(environment, url);
  if (local === undefined || local.isFirst) {
    throw new CliError('not_signed_in', `No key for ${url} is kept here`, {
      hint: `"${relay} profile list" shows the profiles; a server on this machine must be running`,
    });
  }
  const isRevoked = await revoked(url, local.apiKey);
  rmSync(local.path, { force: true });
  print.result(
    { keyFile: local.path, isRevoked },
    print.wrapped(
      isRevoked
        ? `Revoked the key in ${local.path}, and deleted the file.`
        : `Deleted ${local.path}. The key was not revoked, because the server did not accept it.`,
    ),
  );
}

/** Whether the server revoked it. False if the key was invalid already; otherwise it must be kept. */
async function revoked(url: string, apiKey: string): Promise<boolean> {
  const client = await clientFor({ url, apiKey, keyFrom: undefined });
  try {
    await client.keys.revoke((await client.keys.current()).id);
    return true;
  } catch (error) {
    if (isApiError(error) && error.status === 401) return false;
    throw error;
  }
}
