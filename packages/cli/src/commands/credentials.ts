import type { Command } from 'commander';
import { acting, type Call } from '../call.ts';
import { examples } from '../help.ts';
import { take } from '../lists.ts';
import { readSecret } from '../secret.ts';
import type { World } from '../world.ts';

export function registerCredentials(program: Command, world: World): void {
  const credentials = program.command('credentials').description('the keys of model providers');
  examples(credentials, ['relay credentials set openai', 'relay credentials list']);
  const list = credentials
    .command('list')
    .description('which providers have a key; the keys themselves are never shown')
    .action(acting(world, listCredentials));
  examples(list, ['relay credentials list']);
  const set = credentials
    .command('set <provider>')
    .description('store or replace a key; it is asked for, or read from standard input')
    .option('--label <text>', 'a name for people')
    .option('--base-url <url>', 'a server of your own that speaks Chat Completions')
    .action(acting(world, setCredential));
  examples(set, [
    'relay credentials set anthropic',
    'relay credentials set openai --label prod < openai.key',
    'relay credentials set local --base-url http://10.20.0.5:8000/v1',
  ]);
  const remove = credentials
    .command('delete <provider>')
    .description('forget a key; the next call of a model notices')
    .action(acting(world, deleteCredential));
  examples(remove, ['relay credentials delete openai']);
}

async function listCredentials(call: Call): Promise<void> {
  const { credentials } = await call.client();
  call.print.list(
    await take(credentials.list(), Infinity),
    [
      { title: 'provider', of: ({ provider }) => provider },
      { title: 'key', of: ({ last4 }) => `…${last4}` },
      { title: 'updated', of: ({ updatedAt }) => updatedAt, time: true },
      { title: 'label', of: ({ label }) => label ?? '' },
      { title: 'url', of: ({ baseUrl }) => baseUrl },
    ],
    'No provider has a key; only the model "demo" can be asked.',
  );
}

interface SetOptions {
  readonly label?: string;
  readonly baseUrl?: string;
}

async function setCredential(call: Call<SetOptions>, [provider = '']: readonly string[]) {
  const { label, baseUrl } = call.options;
  const client = await call.client();
  const apiKey = await readSecret(call.world, `The key for ${provider}`);
  const credential = await client.credentials.put(provider, {
    apiKey,
    ...(label === undefined ? {} : { label }),
    ...(baseUrl === undefined ? {} : { baseUrl }),
  });
  if (call.print.json) call.print.value(credential);
  else call.print.say(`${provider} has the key …${credential.last4}.`);
}

async function deleteCredential(call: Call, [provider = '']: readonly string[]): Promise<void> {
  const { credentials } = await call.client();
  await credentials.delete(provider);
  if (call.print.json) call.print.value({ provider, status: 'deleted' });
  else call.print.say(`${provider} has no key any more.`);
}
