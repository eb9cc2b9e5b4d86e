/** The commands of an interactive chat: `/help`, `/model NAME` and others. */
import { readdirSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { didYouMean, nearestTo } from '@relay/protocol/display';
import type { Conversation, RelayClient } from '@relay/sdk';
import { take } from '../command.ts';
import { conversationColumns, ownConversations } from '../commands/agents/conversations.ts';
import { toolColumns } from '../commands/agents/tools.ts';
import { relay } from '../environment.ts';
import { usageError } from '../errors.ts';
import { cutTo, escapeLine } from '../output/escape.ts';
import type { Print } from '../output/print.ts';
import type { Column } from '../output/table.ts';
import type { ChatClient } from './client.ts';
import type { DurableChatClient } from './durable-client.ts';
import type { Completion, Terminal } from './terminal.ts';
import { usageText } from './usage-text.ts';
import { needsKey } from '../connection.ts';

export interface SlashCommandsOptions {
  readonly client: RelayClient;
  readonly chat: ChatClient;
  /** The same with a key. */
  readonly durable: DurableChatClient | undefined;
  readonly terminal: Terminal;
  readonly print: Print;
  readonly cwd: string;
  readonly writeLine: (line: string) => void;
  /** Continues a conversation and shows its end. */
  readonly resume: (conversationId: string) => Promise<boolean>;
}

interface SlashCommand {
  readonly name: string;
  readonly argument?: string;
  readonly description: string;
}

const commands: readonly SlashCommand[] = [
  { name: 'help', description: 'show this help' },
  { name: 'model', argument: '[NAME]', description: 'use another model, or list the models' },
  { name: 'agent', argument: '[NAME]', description: 'use another agent, or list the agents' },
  { name: 'new', description: 'begin a new conversation' },
  { name: 'resume', argument: '[ID]', description: 'continue an earlier conversation' },
  { name: 'tools', description: 'list the tools of the agent and which need approval' },
  { name: 'cost', description: 'show the tokens and the cost of the conversation' },
  { name: 'exit', description: 'leave; so do exit, quit and Ctrl-D' },
];

const notes = [
  '@FILE attaches a file. A line that ends with \\ or Alt-Enter goes on; pasted text',
  'is one message. Ctrl-C cancels the current answer.',
];

const pickLength = 10;

export class SlashCommands {
  readonly #options: SlashCommandsOptions;
  /** For completion; loaded when they are listed. */
  #names: Readonly<Record<string, readonly string[]>> = {};

  constructor(options: SlashCommandsOptions) {
    this.#options = options;
  }

  /** Whether a message is a command: a path such as `/etc/hosts` is not. */
  matches(message: string): boolean {
    return /^\/[a-z]*(\s[^\n]*)?$/i.test(message.trim());
  }

  async run(message: string): Promise<void> {
    const [, name = '', argument = ''] = /^\/(\S*)\s*(.*)$/.exec(message.trim()) ?? [];
    switch (name.toLowerCase()) {
      case '':
      case 'help':
        this.#help();
        return;
      case 'model':
        await this.#model(argument);
        return;
      case 'agent':
        await this.#agent(argument);
        return;
      case 'new':
        this.#options.chat.startNew();
        this.#say('The next message begins a new conversation.');
        return;
      case 'resume':
        await this.#resume(argument);
        return;
      case 'tools':
        await this.#tools();
        return;
      case 'cost':
        this.#say(usageText(await this.#options.chat.usage()));
        return;
      default: {
        const known = commands.map((command) => command.name);
        const meant = nearestTo(name, known, 2);
        const hint = meant === undefined ? '' : `Did you mean /${meant}? `;
        this.#say(`Unknown command /${name}. ${hint}/help lists all.`);
      }
    }
  }

  /** Completes a command, the name after it, or the path after an @. */
  complete(line: string): Completion {
    const [candidates, replaced] = this.#completion(line);
    // Names that act on the terminal are left out: the reader writes candidates as they are.
    return [candidates.filter((candidate) => escapeLine(candidate) === candidate), replaced];
  }

  #completion(line: string): Completion {
    const [, command = '', typed = ''] = /^\/(model|agent) (\S*)$/.exec(line) ?? [];
    if (command !== '') {
      return [(this.#names[command] ?? []).filter((name) => name.startsWith(typed)), typed];
    }
    if (line.startsWith('/')) {
      const names = commands.map(({ name, argument }) => `/${name}${argument ? ' ' : ''}`);
      return [names.filter((name) => name.startsWith(line)), line];
    }
    const [, path] = /(?:^|\s)@(\S*)$/.exec(line) ?? [];
    return path === undefined ? [[], line] : [pathsFrom(path, this.#options.cwd), path];
  }

  /** Loads the names that complete `/model` and `/agent`. */
  async load(): Promise<void> {
    const { client, durable } = this.#options;
    const { models } = await client.models();
    const agents = durable === undefined ? [] : await take(client.agents.list(), 200);
    this.#names = { model: models.map(({ id }) => id), agent: agents.map(({ name }) => name) };
  }

  #help(): void {
    for (const { name, argument = '', description } of commands) {
      this.#options.writeLine(`  ${`/${name} ${argument}`.padEnd(16)} ${description}`);
    }
    for (const line of notes) this.#say(line);
  }

  async #model(name: string): Promise<void> {
    const { client, chat } = this.#options;
    const { models, defaultModel } = await client.models();
    if (name === '') {
      const current = chat.model ?? defaultModel ?? 'demo';
      this.#list(models, [
        { title: 'model', value: ({ id }) => `${id}${id === current ? ' (current)' : ''}` },
        { title: 'provider', value: ({ provider }) => provider },
      ]);
      return;
    }
    chat.model = name;
    const ids = models.map(({ id }) => id);
    if (ids.includes(name)) this.#say(`The next message uses ${name}.`);
    else {
      // Providers can have models that the server does not list.
      const hint = didYouMean(name, ids) || '.';
      this.#say(`The next message uses ${name}, which is not in the list of /model${hint}`);
    }
  }

  async #agent(name: string): Promise<void> {
    const { client } = this.#options;
    const durable = this.#withKey('/agent');
    if (name === '') {
      const current = (await durable.agent()).name;
      this.#list(await take(client.agents.list(), 200), [
        {
          title: 'agent',
          value: (agent) => `${agent.name}${agent.name === current ? ' (current)' : ''}`,
        },
        { title: 'model', value: ({ model }) => model },
        { title: 'description', value: ({ description }) => description },
      ]);
      return;
    }
    await durable.setAgent(name);
    this.#say(`The next message goes to ${name}.`);
  }

  /** An agent that names no tools has all of them in a chat. */
  async #tools(): Promise<void> {
    const durable = this.#withKey('/tools');
    const { tools } = await this.#options.client.tools();
    const agent = await durable.agent();
    const own = tools.filter(({ name, needs }) => {
      if (needs === 'session' || (needs === 'memory' && agent.memory === undefined)) return false;
      return agent.tools?.includes(name) ?? true;
    });
    this.#list(own, toolColumns);
    const { handoffs = [] } = agent;
    if (handoffs.length > 0) this.#say(`It can hand off to ${handoffs.join(', ')}.`);
  }

  async #resume(id: string): Promise<void> {
    this.#withKey('/resume');
    const { client, resume } = this.#options;
    if (id !== '') {
      await resume(id);
      return;
    }
    const conversations = await ownConversations(client, pickLength + 1);
    const chosen = await this.#pick(
      conversations.slice(0, pickLength),
      conversations.length > pickLength,
    );
    if (chosen !== undefined) await resume(chosen.id);
  }

  async #pick(
    conversations: readonly Conversation[],
    hasMore: boolean,
  ): Promise<Conversation | undefined> {
    const { terminal } = this.#options;
    const numbers = new Map(conversations.map((conversation, at) => [conversation, at + 1]));
    const columns: Column<Conversation>[] = [
      { title: '#', value: (conversation) => numbers.get(conversation) },
      ...conversationColumns.filter(({ title }) => title !== 'conversation'),
    ];
    this.#list(conversations, columns);
    if (conversations.length === 0) return undefined;
    if (hasMore) this.#say(`"${relay} conversations list" shows older ones, for /resume ID.`);
    for (;;) {
      const line = await terminal.ask({
        prompt: `Number (1–${conversations.length}), or Enter to stay > `,
        fresh: true,
        cancelable: true,
      });
      if (line === undefined || line.trim() === '') return undefined;
      const chosen = conversations[Number(line.trim()) - 1];
      if (chosen !== undefined) return chosen;
    }
  }

  #withKey(command: string): DurableChatClient {
    const { durable } = this.#options;
    if (durable === undefined) throw usageError(`${command} needs a key`, needsKey);
    return durable;
  }

  #list<Item>(items: readonly Item[], columns: readonly Column<Item>[]): void {
    this.#options.print.list(items, columns, 'None.');
  }

  #say(text: string): void {
    const { writeLine, print } = this.#options;
    writeLine(print.paint('dim', cutTo(escapeLine(text), 1_000)));
  }
}

function pathsFrom(path: string, cwd: string): string[] {
  const folder = path.endsWith('/') ? path : dirname(path);
  const base = path.slice(0, path.lastIndexOf('/') + 1);
  try {
    return readdirSync(resolve(cwd, folder), { withFileTypes: true })
      .map((entry) => `${base}${entry.name}${entry.isDirectory() ? '/' : ''}`)
      .filter((candidate) => candidate.startsWith(path));
  } catch {
    return [];
  }
}
