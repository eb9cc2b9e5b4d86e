import { Readable } from 'node:stream';
import type { RelayClient } from '@relay/sdk';
import type { History } from '../../chat/durable-client.ts';
import type { DurableChatClient, DurableChatOptions } from '../../chat/durable-client.ts';
import type { CliCommand, Context } from '../../command.ts';
import { timeoutOption } from '../../deadline.ts';
import { relay } from '../../environment.ts';
import { CliError, exitCodes, usageError } from '../../errors.ts';
import { readStdin } from '../../input.ts';
import { isLocal } from '../../local-server.ts';
import { escapeLine } from '../../output/escape.ts';
import { shortId } from '../../output/short-id.ts';
import { needsKey } from '../../connection.ts';

interface Options {
  readonly model?: string;
  readonly agent?: string;
  readonly conversation?: string;
  readonly continue?: boolean;
  readonly headless?: boolean;
  readonly deny?: boolean;
  readonly timeout?: number;
}

export function registerChat(program: CliCommand): void {
  program
    .command('chat [message...]')
    .description('chat with an agent; its tools ask for your approval')
    .option('--model <model>', "model to use (default: the server's, else demo)")
    .option('--agent <agent>', 'agent to use (needs a key)')
    .option('-c, --continue', 'continue your latest conversation (needs a key)')
    .option('--conversation <conversation>', 'continue this conversation (needs a key)')
    .option('--headless', 'never prompt: exit with 8 if an approval is needed')
    .option('--deny', 'never prompt: deny what needs an approval')
    .addOption(timeoutOption())
    .examples(
      [
        'relay chat',
        'relay chat --continue',
        'relay chat "calculate 23*47"',
        'relay chat "Review this file" @src/main.ts',
        'git diff | relay chat "Review this change" -',
        'relay chat --headless --timeout 5m --json "notify the build is green"',
      ],
      'With a message the command sends it and exits, with 7 if the run fails; "-" stands for the ' +
        'text on standard input, and @file attaches a file. At an approval: y = yes, n = no, a = ' +
        'always in this conversation, e = edit the arguments; Ctrl-D leaves it for later. Ctrl-C ' +
        'cancels the current run, or exits. /help in the chat lists its commands. In a pipe, each ' +
        'line is a message or an answer.',
    )
    .handle(chat);
}

async function chat(context: Context<Options>, words: readonly string[]): Promise<void> {
  const { environment, print, options } = context;
  checkOptions(options);
  const client = await context.client();
  const { connection } = context;
  if (connection.apiKey === undefined) checkKeyless(context);
  const [{ Terminal }, { Conversation }, { StatusLine }, attachments, { editorFor }] =
    await Promise.all([
      import('../../chat/terminal.ts'),
      import('../../chat/conversation.ts'),
      import('../../output/status-line.ts'),
      import('../../chat/attachments.ts'),
      import('../../chat/editor.ts'),
    ]);
  const attach = (text: string, pasted: readonly string[] = []) =>
    attachments.withAttachments(text, { cwd: environment.cwd, pasted });
  // Before anything is sent: a file may be missing.
  const typed = words
    .filter((word) => word !== '-')
    .map((word) => attachments.quotedReference(word, environment.cwd))
    .join(' ');
  const attached = attach(typed);
  const isPiped = words.includes('-');
  const piped = isPiped ? await readStdin(environment, maxMessageLength) : undefined;
  if (isPiped && piped?.trim() === '') throw usageError('There is no text on standard input');
  const { stdout, stderr } = environment;
  const output = print.json || stdout.isTTY !== true ? stderr : stdout;
  const writeLine = (line: string) => void output.write(`${line}\n`);
  let note: DurableChatOptions['note'] = writeLine;
  const { chat: chatClient, durable } = await chatClientFor(context, client, (...shown) =>
    note(...shown),
  );
  // What was piped is the message, not the answers.
  const stdin = isPiped ? Readable.from([]) : environment.stdin;
  const terminal = new Terminal({ ...environment, stdin }, output);
  const interrupt = () => terminal.interrupt();
  process.on('SIGINT', interrupt);
  const status = new StatusLine(environment, output, { isOff: print.json });
  try {
    const conversation = new Conversation({
      print,
      terminal,
      client: chatClient,
      status,
      openEditor: editorFor(environment, terminal),
      writeLine,
      attach,
      approvals: approvalsFor(options),
      waitsForOthers: words.length > 0,
      timeout: options.timeout,
    });
    note = (...shown) => conversation.note(...shown);
    /** False: the user has left. */
    const follow = async (history: History | undefined) => {
      if (history === undefined) return true;
      conversation.showHistory(history);
      const last = history.runs.at(-1);
      const isActive = last !== undefined && /^(queued|running|waiting)$/.test(last.status);
      if (!isActive || durable === undefined) return true;
      return conversation.showTurn(async (left) => durable.rejoin(last, left));
    };
    const resume = async (id: string) =>
      follow(await durable?.resume(await context.id('conversation', id), historyLength));
    const conversationId = await conversationToResume(context, client);
    const earlier =
      conversationId === undefined
        ? undefined
        : await durable?.resume(conversationId, historyLength);
    // Fails now if there is no such agent. The timeout of a single message includes the search for it.
    const agent = words.length === 0 ? await durable?.agent() : undefined;
    if (terminal.isInteractive && words.length === 0) {
      const model =
        chatClient.model ?? agent?.model ?? (await client.models()).defaultModel ?? 'demo';
      const name = agent === undefined ? model : `${agent.name} (${model})`;
      writeLine(print.paint('dim', `${escapeLine(name)} at ${connection.url}. ${keysHelp}`));
      if (connection.apiKey === undefined) writeLine(print.paint('dim', keylessNote));
    }
    const isFollowed = await follow(earlier).catch((error: unknown) => {
      throw isLeftWaiting(error) ? unsentError(error, words.length > 0) : error;
    });
    if (!isFollowed) {
      if (words.length > 0) writeLine('Your message was not sent.');
      return;
    }
    if (words.length > 0) {
      conversation.showFiles(attached.files);
      await conversation.runOnce(withPiped(attached.content, piped));
    } else if (!terminal.isInteractive) await conversation.run(undefined);
    else {
      const { SlashCommands } = await import('../../chat/slash-commands.ts');
      const { cwd } = environment;
      const shared = { client, chat: chatClient, durable, terminal, print, cwd, writeLine, resume };
      const commands = new SlashCommands(shared);
      // Completion works without them.
      commands.load().catch(() => undefined);
      await conversation.run(commands);
    }
    const { conversationId: id } = chatClient;
    if (terminal.isInteractive && words.length === 0 && id !== undefined) {
      const command = `${relay} chat --conversation ${shortId(id)}`;
      writeLine(print.paint('dim', `Continue later: ${command}`));
    }
  } finally {
    status.clear();
    process.off('SIGINT', interrupt);
    terminal.close();
  }
}

const keysHelp = '/help shows what you can do, Ctrl-D exits.';
const keylessNote =
  'Without a key (RELAY_API_KEY or --profile) this chat has the model demo only, and ends when you exit.';
const historyLength = 5;
const maxMessageLength = 1024 * 1024;

function checkOptions({ headless, deny, conversation, ...options }: Options): void {
  if (headless === true && deny === true) throw usageError('Use either --headless or --deny');
  if (options.continue === true && conversation !== undefined) {
    throw usageError('Use either --continue or --conversation');
  }
}

function approvalsFor({ headless, deny }: Options): 'ask' | 'wait' | 'deny' {
  if (deny === true) return 'deny';
  return headless === true ? 'wait' : 'ask';
}

function checkKeyless(context: Context<Options>): void {
  const { url } = context.connection;
  if (!isLocal(url)) {
    throw new CliError('unauthorized', `No API key for ${url}`, {
      exit: exitCodes.notAllowed,
      hint: `${needsKey}, or use --profile`,
    });
  }
  const { agent, conversation, continue: isContinued } = context.options;
  if (agent !== undefined || conversation !== undefined || isContinued === true) {
    throw usageError('--agent, --continue and --conversation need a key', needsKey);
  }
}

async function conversationToResume(
  context: Context<Options>,
  client: RelayClient,
): Promise<string | undefined> {
  const { options } = context;
  if (options.continue !== true) return context.optionalId('conversation', options.conversation);
  const { ownConversations } = await import('./conversations.ts');
  const [latest] = await ownConversations(client, 1);
  if (latest !== undefined) return latest.id;
  throw new CliError('not_found', 'There is no conversation to continue', {
    exit: exitCodes.notFound,
    hint: `begin one with "${relay} chat"`,
  });
}

function isLeftWaiting(error: unknown): error is CliError {
  return error instanceof CliError && error.exit === exitCodes.waiting;
}

/** The earlier run of the conversation waits, so that nothing more can be sent. */
function unsentError({ code, message, exit, hint }: CliError, isSingle: boolean): CliError {
  const unsent = isSingle ? 'your message was not sent' : 'no message was sent';
  return new CliError(code, `${message}; ${unsent}`, { exit, hint });
}

type Content = Parameters<DurableChatClient['send']>[0];

/** The text on standard input follows the message. */
function withPiped(content: Content, piped: string | undefined): Content {
  if (piped === undefined) return content;
  if (typeof content === 'string') return content === '' ? piped : `${content}\n\n${piped}`;
  return [...content, { type: 'text', text: piped }];
}

async function chatClientFor(
  { connection, options: { model, agent } }: Context<Options>,
  client: RelayClient,
  note: DurableChatOptions['note'],
) {
  if (connection.apiKey === undefined) {
    const { EphemeralChatClient } = await import('../../chat/ephemeral-client.ts');
    return { chat: new EphemeralChatClient({ client, model }), durable: undefined };
  }
  const { DurableChatClient } = await import('../../chat/durable-client.ts');
  const durable = new DurableChatClient({ client, model, agent, note });
  return { chat: durable, durable };
}
