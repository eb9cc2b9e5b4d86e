import type { CliCommand, Context } from '../../command.ts';
import { checkedUrl } from '../../connection.ts';
import { readSecret } from '../../input.ts';
import {
  defaultProfile,
  deleteProfile,
  keyOf,
  localName,
  type Profile,
  profileNamed,
  readProfiles,
  storeProfile,
  useOfProfile,
  writeProfiles,
} from '../../profiles.ts';

export function registerProfile(program: CliCommand): void {
  const profile = program
    .command('profile')
    .description('manage servers and their keys, by name')
    .examples(['relay profile list', 'relay profile use prod']);
  profile
    .command('add <name>')
    .description('add or replace a profile; "relay login" does so and checks the key')
    .requiredOption('--server <url>', 'URL of the server')
    .option('--key-file <file>', 'private file with the key, read at each use')
    .examples(
      [
        'relay profile add prod --server https://relay.example.com',
        'relay profile add ci --server https://relay.example.com --key-file ~/ci.key',
      ],
      'Without --key-file it asks for the key, or reads it from standard input.',
    )
    .handle(addProfile);
  profile
    .command('list')
    .description('list the profiles; keys are never shown')
    .examples(['relay profile list'])
    .handle(listProfiles);
  profile
    .command('use <name>')
    .description('make a profile the default; "local" is the server on this machine')
    .examples(['relay profile use prod', 'relay profile use local'])
    .handle(useProfile);
  profile
    .command('remove <name>')
    .description('remove a profile; its key stays valid')
    .examples(['relay profile remove prod'])
    .handle(removeProfile);
}

interface AddOptions {
  readonly server: string;
  readonly keyFile?: string;
}

async function addProfile(context: Context<AddOptions>, [name = '']: readonly string[]) {
  const { environment, options, print } = context;
  const { keyFile } = options;
  const url = checkedUrl(options.server);
  const profile: Profile =
    keyFile === undefined
      ? { url, apiKey: await readSecret(environment, `API key for ${url}`) }
      : { url, keyFile };
  // Fails now if the file is missing or not private.
  keyOf(environment, profile);
  storeProfile(environment, name, profile);
  const { isDefault, use } = useOfProfile(environment, name);
  print.result({ name, url, keyFile, isDefault }, `Added the profile ${name}. ${use}`);
}

function listProfiles({ environment, print }: Context): void {
  const profiles = readProfiles(environment);
  const used = defaultProfile(profiles)?.[0] ?? localName;
  const own = Object.hasOwn(profiles, localName) ? [] : [[localName, {}] as [string, Profile]];
  const items = [...own, ...Object.entries(profiles)].map(([name, { url, keyFile }]) => ({
    name,
    isDefault: name === used,
    url,
    keyFile,
  }));
  print.list(items, [
    { title: 'name', value: ({ name }) => name },
    { title: 'default', value: ({ isDefault }) => (isDefault ? 'yes' : '') },
    { title: 'server', value: ({ url }) => url ?? 'the server on this machine' },
    { title: 'key', value: ({ keyFile, url }) => keyFile ?? (url === undefined ? '' : 'stored') },
  ]);
}

function useProfile({ environment, print }: Context, [name = '']: readonly string[]): void {
  profileNamed(environment, name);
  const entries = Object.entries(readProfiles(environment)).map(
    ([each, { default: _before, ...profile }]) =>
      [each, each === name ? { ...profile, default: true } : profile] as const,
  );
  writeProfiles(environment, Object.fromEntries(entries));
  print.result({ name, isDefault: true }, `The default is ${name}.`);
}

function removeProfile({ environment, print }: Context, [name = '']: readonly string[]): void {
  deleteProfile(environment, name);
  print.result({ name, status: 'removed' }, `Removed the profile ${name}. Its key stays valid.`);
}
