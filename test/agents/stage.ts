/** A real server with real agents, whose models are scripted. */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { DeliveryMode } from '@relay/protocol';
import { type Approval, createClient, type Session } from '@relay/sdk';
import { TestServer } from '../support/server.ts';
import { agents, type TestedAgent } from './agents.ts';
import { ScriptedModels } from './models.ts';

const config = fileURLToPath(new URL('relay.config.ts', import.meta.url));

interface SessionOptions {
  readonly handle?: string;
  /** What its folder has at the start, by path. */
  readonly files?: Readonly<Record<string, string>>;
}

export class Stage {
  readonly models: ScriptedModels;
  readonly server: TestServer;
  readonly #workspaces = mkdtempSync(join(tmpdir(), 'relay-workspace-'));
  #handles = 0;

  private constructor(models: ScriptedModels) {
    this.models = models;
    this.server = new TestServer({
      RELAY_CONFIG: config,
      RELAY_PRIVATE_NETWORKS: '127.0.0.0/8',
      AGENT_MODELS_URL: models.url,
    });
  }

  static async start(): Promise<Stage> {
    mkdirSync(tmpdir(), { recursive: true });
    const stage = new Stage(await ScriptedModels.start());
    await stage.startServer();
    const key = { apiKey: 'sk-scripted', baseUrl: `${stage.models.url}/v1` };
    for (const { provider } of agents) {
      if (provider !== undefined) await stage.client.credentials.put(provider, key);
    }
    return stage;
  }

  async startServer(): Promise<void> {
    await this.server.start({ RELAY_WORKSPACE: this.#workspaces });
  }

  get client() {
    return createClient({ baseUrl: this.server.url, apiKey: this.server.apiKey });
  }

  /** Starts a session in a folder of its own, which is called like it. */
  async session(
    { name, model }: TestedAgent,
    { handle = `${name}-${++this.#handles}`, files = {} }: SessionOptions = {},
  ): Promise<Session> {
    for (const [file, text] of Object.entries({ '.keep': '', ...files })) {
      const path = join(this.#workspaces, handle, file);
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, text);
    }
    const { client } = this;
    const { id } = await client.sessions.create({
      harness: name,
      handle,
      model,
      workspace: handle,
    });
    await this.until(async () => (await client.sessions.get(id)).status === 'idle');
    return client.sessions.get(id);
  }

  async send({ identity }: Session, text: string, mode?: DeliveryMode): Promise<string> {
    const message = { to: `@${identity.handle}`, text, ...(mode === undefined ? {} : { mode }) };
    return (await this.client.messages.send(message)).id;
  }

  /** What became of a message to one session. */
  async delivery(messageId: string) {
    const [delivery] = await this.client.messages.deliveries(messageId);
    if (delivery === undefined) throw new Error('The message has no delivery');
    return delivery;
  }

  async consumed(messageId: string): Promise<void> {
    await this.until(async () => (await this.delivery(messageId)).status === 'consumed');
  }

  async approvals({ id }: Session): Promise<readonly Approval[]> {
    return (await this.client.approvals.list({ sessionId: id }).page()).items;
  }

  /** The approval that the session waits for. */
  async pending(session: Session): Promise<Approval> {
    return this.until(async () =>
      (await this.approvals(session)).find(({ status }) => status === 'pending'),
    );
  }

  async idle({ id }: Session): Promise<void> {
    await this.until(async () => (await this.client.sessions.get(id)).status === 'idle');
  }

  async events({ id }: Session) {
    return (await this.client.sessions.events(id, { limit: 1000 }).page()).items;
  }

  /** Ends the session; nothing of it may be left running. */
  async release(session: Session): Promise<void> {
    const { releasedAt } = await this.client.sessions.get(session.id);
    if (releasedAt === undefined) await this.client.sessions.release(session.id);
    await this.until(() => this.processes(session).length === 0);
  }

  /** Kills the agent's program, and neither the sandbox around it nor what it has started itself. */
  killAgent(session: Session): void {
    const family = this.processes(session).filter((pid) => statusOf(pid, 'Name') !== 'bwrap');
    const agent = family.find((pid) => !family.includes(Number(statusOf(pid, 'PPid'))));
    if (agent === undefined) throw new Error('The agent does not run');
    process.kill(agent, 'SIGKILL');
  }

  /** The processes that work in the session's folder. */
  processes(session: Session): number[] {
    const folder = this.path(session);
    return readdirSync('/proc')
      .map(Number)
      .filter((pid) => pid > 0 && folderOf(pid) === folder);
  }

  write(session: Session, name: string): void {
    writeFileSync(this.path(session, name), '');
  }

  /** The path of a file in the session's folder, or of that folder. */
  path({ workspace = '' }: Session, name = ''): string {
    return join(this.#workspaces, workspace, name);
  }

  /** The text that a file in the session's folder has. */
  file(session: Session, name: string): string | undefined {
    const path = this.path(session, name);
    return existsSync(path) ? readFileSync(path, 'utf8') : undefined;
  }

  async until<Value>(
    look: () => Value | undefined | false | Promise<Value | undefined | false>,
  ): Promise<Value> {
    const deadline = Date.now() + 60_000;
    while (Date.now() < deadline) {
      const value = await look();
      if (value !== undefined && value !== false) return value;
      await pause(50);
    }
    const lines = this.server.output
      .split('\n')
      .filter((line) => !line.includes('"msg":"request"'));
    throw new Error(
      `It did not happen within a minute: ${String(look)}\n${lines.slice(-20).join('\n')}`,
    );
  }

  async dispose(): Promise<void> {
    await this.server.stop();
    await this.server.dispose();
    await this.models.close();
    rmSync(this.#workspaces, { recursive: true, force: true });
  }
}

function folderOf(pid: number): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    return undefined;
  }
}

function statusOf(pid: number, field: 'Name' | 'PPid'): string | undefined {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return new RegExp(`^${field}:\\s+(.*)$`, 'm').exec(status)?.[1];
}
