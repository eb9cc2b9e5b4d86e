import type { RelayClient } from '@relay/sdk';
import type { CliCommand, Context } from '../command.ts';
import { isLocal } from '../local-server.ts';
import { CliError, exitCodes, usageError } from '../errors.ts';

interface Options {
  readonly model?: string;
  readonly agent?: string;
  readonly conversation?: string;
}

export function registerChat(program: CliCommand): void {
  program
    .command('chat [message...]')
    .description('chat with an agent; its tools ask for your approval')
    .option('--model <name>', "model to use (default: the server's, else demo)")
    .option('--agent <name>', 'agent to use (needs a key)')
    .option('--conversation <id>', 'continue a conversation (needs a key)')
    .examples(
      [
        'relay chat',
        'relay chat --model claude-sonnet-4-5',
        'relay chat "calculate 23*47"',
        'relay chat --conversation CONVERSATION_ID',
      ],
      'At an approval prompt: o = allow once, a = always allow in this conversation, e = edit the ' +
        'arguments, d = deny. Ctrl-C cancels the current run, or exits; Ctrl-D exits. With a message ' +
        'the command sends it and exits, with 7 if the run fails. In a pipe, each line is a message ' +
        'or an answer.',
    )
    .handle(chat);
}

async function chat(context: Context<Options>, words: readonly string[]): Promise<void> {
  const { environment, print, options, connection } = context;
  if (connection.apiKey === undefined) checkKeyless(connection.url, options);
  const [{ Terminal }, { Conversation }] = await Promise.all([
    import('../chat/terminal.ts'),
    import('../chat/conversation.ts'),
  ]);
  const client = await context.client();
  const model = await chooseModel(client, options);
  const { stdout, stderr } = environment;
  const output = print.json || stdout.isTTY !== true ? stderr : stdout;
  const writeLine = (line: string) => void output.write(`${line}\n`);
  let note: (line: string) => void = writeLine;
  const chatClient = await chatClientFor(context, { client, model, note: (line) => note(line) });
  const terminal = new Terminal(environment, output);
  const interrupt = () => terminal.interrupt();
  process.on('SIGINT', interrupt);
  try {
    const conversation = new Conversation({ print, terminal, client: chatClient, writeLine });
    note = (line) => conversation.note(line);
    if (terminal.isInteractive && words.length === 0) {
      const name = model ?? options.agent ?? 'Your conversation';
      writeLine(print.paint('dim', `${name} at ${connection.url}. ${keysHelp}`));
      if (connection.apiKey === undefined) writeLine(print.paint('dim', keylessNote));
    }
    if ('history' in chatClient) {
      const runs = await chatClient.history(historyLength);
      conversation.showHistory(runs);
      const last = runs.at(-1);
      const isActive = last !== undefined && /^(queued|running|waiting)$/.test(last.status);
      if (isActive) await conversation.runTurn(async () => chatClient.rejoin(last));
    }
    if (words.length > 0) await conversation.runOnce(words.join(' '));
    else await conversation.run();
    const { conversationId } = chatClient;
    if (terminal.isInteractive && conversationId !== undefined) {
      writeLine(print.paint('dim', `Continue later: relay chat --conversation ${conversationId}`));
    }
  } finally {
    process.off('SIGINT', interrupt);
    terminal.close();
  }
}

const keysHelp = 'Ctrl-C cancels, Ctrl-D exits.';
const keylessNote =
  'Without a key (RELAY_API_KEY or --profile) this chat has the model demo only, and ends when you exit.';
const historyLength = 5;

function checkKeyless(url: string, { agent, conversation }: Options): void {
  if (!isLocal(url)) {
    throw new CliError('unauthorized', `No API key for ${url}`, {
      exit: exitCodes.notAllowed,
      hint: 'set RELAY_API_KEY, or use --profile',
    });
  }
  if (agent !== undefined || conversation !== undefined) {
    throw usageError('--agent and --conversation need a key', 'set RELAY_API_KEY');
  }
}

/** An agent or a conversation can have its own model. Otherwise `demo` works without any setup. */
async function chooseModel(client: RelayClient, { model, agent, conversation }: Options) {
  if (model !== undefined || agent !== undefined || conversation !== undefined) return model;
  const { defaultModel } = await client.models();
  return defaultModel ?? 'demo';
}

interface ClientParts {
  readonly client: RelayClient;
  readonly model: string | undefined;
  readonly note: (line: string) => void;
}

async function chatClientFor({ connection, options }: Context<Options>, parts: ClientParts) {
  if (connection.apiKey === undefined) {
    const { EphemeralChatClient } = await import('../chat/ephemeral-client.ts');
    return new EphemeralChatClient(parts);
  }
  const { DurableChatClient } = await import('../chat/durable-client.ts');
  const { agent, conversation: conversationId } = options;
  return new DurableChatClient({ ...parts, agent, conversationId });
}
