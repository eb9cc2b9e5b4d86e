import { type CliCommand, type Context, take } from '../../command.ts';
import { relay } from '../../environment.ts';
import { CliError } from '../../errors.ts';
import { readSecret } from '../../input.ts';

export function registerCredentials(program: CliCommand): void {
  const credentials = program
    .command('credentials')
    .description('manage the API keys of model providers')
    .examples(['relay credentials set openai', 'relay credentials list']);
  credentials
    .command('list')
    .description('list the providers that have a key; keys are never shown')
    .examples(['relay credentials list'])
    .handle(listCredentials);
  credentials
    .command('set <provider>')
    .description('store or replace a key, from a prompt or standard input')
    .option('--label <text>', 'display name')
    .option('--base-url <url>', 'your own server with a Chat Completions API')
    .examples([
      'relay credentials set anthropic',
      'relay credentials set openai --label prod < openai.key',
      'relay credentials set local --base-url http://10.20.0.5:8000/v1',
    ])
    .handle(setCredential);
  credentials
    .command('delete <provider>')
    .description('delete a key; effective from the next model call')
    .examples(['relay credentials delete openai'])
    .handle(deleteCredential);
}

async function listCredentials(context: Context): Promise<void> {
  const { credentials } = await context.client();
  context.print.list(
    await take(credentials.list(), Infinity),
    [
      { title: 'provider', value: ({ provider }) => provider },
      { title: 'key', value: ({ last4 }) => `…${last4}` },
      { title: 'from', value: ({ source }) => source ?? 'stored' },
      { title: 'updated', value: ({ updatedAt }) => updatedAt, time: true },
      { title: 'label', value: ({ label }) => label ?? '' },
      { title: 'url', value: ({ baseUrl }) => baseUrl },
    ],
    'No provider has a key; only the model "demo" is available.',
  );
}

interface SetOptions {
  readonly label?: string;
  readonly baseUrl?: string;
}

async function setCredential(context: Context<SetOptions>, [provider = '']: readonly string[]) {
  const { label, baseUrl } = context.options;
  const client = await context.client();
  // Fails before a secret is typed: the server must respond, and accept this key as an administrator's.
  await client.credentials.list().page();
  const apiKey = await readSecret(context.environment, `API key for ${provider}`);
  const credential = await client.credentials.put(provider, { apiKey, label, baseUrl });
  context.print.result(credential, `Stored the key …${credential.last4} for ${provider}.`);
  if (!context.print.json) context.print.note(`Try it: ${relay} chat --model ${provider}:MODEL`);
}

async function deleteCredential(
  context: Context,
  [provider = '']: readonly string[],
): Promise<void> {
  const { credentials } = await context.client();
  const inEnvironment = async () =>
    (await take(credentials.list(), Infinity)).find(
      (each) => each.provider === provider && each.source === 'environment',
    );
  const remedy =
    'remove its variable from the environment or the .env of the server, and restart the server';
  const unstored = await inEnvironment();
  if (unstored !== undefined) {
    throw new CliError(
      'not_stored',
      `The key …${unstored.last4} for ${provider} is not stored: the server has it from its environment`,
      { hint: remedy },
    );
  }
  await credentials.delete(provider);
  context.print.result({ provider, status: 'deleted' }, `Deleted the key for ${provider}.`);
  const remaining = await inEnvironment();
  if (remaining === undefined) return;
  context.print.note(
    `The server now uses the key …${remaining.last4} from its environment. To stop this, ${remedy}.`,
  );
}
