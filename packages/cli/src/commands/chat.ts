import type { RelayClient } from '@relay/sdk';
import type { Command } from 'commander';
import { acting, type Call } from '../call.ts';
import { isLocal } from '../connection.ts';
import { CliError, exitCodes, usageError } from '../failures.ts';
import { examples } from '../help.ts';
import type { World } from '../world.ts';

interface Options {
  readonly model?: string;
  readonly agent?: string;
  readonly conversation?: string;
}

export function registerChat(program: Command, world: World): void {
  const chat = program
    .command('chat [message...]')
    .description('talk to an agent; you are asked before its tools run')
    .option('--model <name>', "which model (default: the server's, else demo)")
    .option('--agent <name>', 'which agent (needs a key)')
    .option('--conversation <id>', 'go on with a conversation (needs a key)')
    .action(acting(world, chatWith));
  examples(
    chat,
    [
      'relay chat',
      'relay chat --model claude-sonnet-4-5',
      'relay chat "calculate 23*47"',
      'relay chat --conversation CONVERSATION_ID',
    ],
    {
      after:
        'At a request: o = once, a = always in this conversation, e = edit its arguments, d = deny. ' +
        'Ctrl-C cancels what is going on, or leaves; Ctrl-D leaves. With a message it says that ' +
        'and exits, with 7 if the run fails. Lines of a pipe are messages and answers in turn.',
    },
  );
}

async function chatWith(call: Call<Options>, words: readonly string[]): Promise<void> {
  const { world, print, options, connection } = call;
  if (connection.apiKey === undefined) needsNoKey(connection.url, options);
  const [{ Terminal }, { Conversation }] = await Promise.all([
    import('../chat/terminal.ts'),
    import('../chat/conversation.ts'),
  ]);
  const client = await call.client();
  const model = await chooseModel(client, options);
  const beside = print.json || world.stdout.isTTY !== true ? world.stderr : world.stdout;
  const aside = (line: string) => void beside.write(`${line}\n`);
  let note: (line: string) => void = aside;
  const partner = await partnerOf(call, { client, model, note: (line) => note(line) });
  const terminal = new Terminal(world, beside);
  const interrupt = () => terminal.interrupt();
  process.on('SIGINT', interrupt);
  try {
    const conversation = new Conversation({ print, terminal, partner, aside });
    note = (line) => conversation.note(line);
    if (terminal.isInteractive && words.length === 0) {
      const whom = model ?? options.agent ?? 'Your conversation';
      aside(print.paint('dim', `${whom} at ${connection.url}. ${keys}`));
      if (connection.apiKey === undefined) aside(print.paint('dim', passing));
    }
    if ('history' in partner) {
      const runs = await partner.history(historyLength);
      conversation.recall(runs);
      const last = runs.at(-1);
      const goesOn = last !== undefined && /^(queued|running|waiting)$/.test(last.status);
      if (goesOn) await conversation.take(async () => partner.rejoin(last));
    }
    if (words.length > 0) await conversation.once(words.join(' '));
    else await conversation.talk();
    const { resumeWith } = partner;
    if (terminal.isInteractive && resumeWith !== undefined) {
      aside(print.paint('dim', `Go on later: relay chat --conversation ${resumeWith}`));
    }
  } finally {
    process.off('SIGINT', interrupt);
    terminal.close();
  }
}

const keys = 'Ctrl-C cancels, Ctrl-D leaves.';
const passing =
  'Without a key (RELAY_API_KEY) this chat ends when you leave or the server restarts.';
const historyLength = 5;

function needsNoKey(url: string, { agent, conversation }: Options): void {
  if (!isLocal(url)) {
    throw new CliError('unauthorized', `There is no key for ${url}`, {
      exit: exitCodes.notAllowed,
      hint: 'set RELAY_API_KEY, or name a --profile',
    });
  }
  if (agent !== undefined || conversation !== undefined) {
    throw usageError('--agent and --conversation need a key', 'set RELAY_API_KEY');
  }
}

/** An agent or a conversation may have a model of its own; otherwise a newcomer has to have something to talk to. */
async function chooseModel(client: RelayClient, { model, agent, conversation }: Options) {
  if (model !== undefined || agent !== undefined || conversation !== undefined) return model;
  const { defaultModel } = await client.models();
  return defaultModel ?? 'demo';
}

interface Parts {
  readonly client: RelayClient;
  readonly model: string | undefined;
  readonly note: (line: string) => void;
}

async function partnerOf({ connection, options }: Call<Options>, parts: Parts) {
  if (connection.apiKey === undefined) {
    const { KeylessPartner } = await import('../chat/keyless.ts');
    return new KeylessPartner(parts);
  }
  const { KeyedPartner } = await import('../chat/with-key.ts');
  const { agent, conversation: conversationId } = options;
  return new KeyedPartner({ ...parts, agent, conversationId });
}
