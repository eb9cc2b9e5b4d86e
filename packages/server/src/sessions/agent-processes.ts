/**
 * What sessions whose agents are processes work with: a folder of the tenant's workspace, a home folder, and a
 * session token for Relay's own MCP server.
 *
 * - At most `RELAY_MAX_AGENTS` of them live on a node.
 * - A home folder is `<data folder>/agents/<tenant>/<session>`. It is removed when the session has ended. Those of
 *   sessions that ended while no server ran are removed at the next start.
 */
import { mkdir, readdir, realpath, rm, stat } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { join, relative, resolve } from 'node:path';
import type { HarnessProcess, HarnessSandbox, SessionRef, SystemStore } from '@relay/core';
import { isWithin, realPathOf } from '@relay/processes';
import { defined, RelayError } from '@relay/protocol';
import type { Config } from '../config/config.ts';
import { invalidField } from '../http/errors.ts';
import type { ServerLog } from '../observability/log.ts';
import { hashApiKey, makeSessionToken } from '../secrets/keys.ts';
import type { Vault } from '../secrets/vault.ts';
import type { Workspaces } from '../workspaces/workspaces.ts';

export interface AgentProcessesOptions {
  readonly store: SystemStore;
  readonly config: Pick<Config, 'dataDir' | 'host' | 'maxAgents'>;
  readonly vault: Pick<Vault, 'read' | 'secretOf'>;
  readonly workspaces: Pick<Workspaces, 'folderOf' | 'hiddenFrom'>;
  readonly defaultTenantId: string;
  readonly sandbox: HarnessSandbox | undefined;
  readonly log: Pick<ServerLog, 'warn' | 'addSecret'>;
}

export interface PreparedProcess {
  readonly process: HarnessProcess;
  /** Of `process.mcp.token`. */
  readonly tokenHash: string;
  /** Its folder, relative to the tenant's workspace. */
  readonly workspace: string;
}

export class AgentProcesses {
  readonly #options: AgentProcessesOptions;
  readonly #listening = Promise.withResolvers<void>();
  #url: string | undefined;
  #places = 0;

  constructor(options: AgentProcessesOptions) {
    this.#options = options;
  }

  /** The server can be reached from now on. */
  listens(address: AddressInfo | string | null): void {
    // Not on a socket in the file system.
    if (typeof address !== 'object' || address === null) return;
    const { host } = this.#options.config;
    const own = new Map([
      ['0.0.0.0', '127.0.0.1'],
      ['::', '::1'],
    ]);
    const name = own.get(host) ?? host;
    this.#url = `http://${name.includes(':') ? `[${name}]` : name}:${address.port}/mcp`;
    this.#listening.resolve();
  }

  /** Resolves when the server can be reached, and also when the signal is aborted. */
  async listening(signal: AbortSignal): Promise<void> {
    const aborted = new Promise<void>((done) => {
      signal.addEventListener('abort', () => done(), { once: true });
    });
    if (!signal.aborted) await Promise.race([this.#listening.promise, aborted]);
  }

  /** Takes a place, and returns what gives it back. Undefined if there is none. */
  enter(): (() => void) | undefined {
    if (this.#places >= this.#options.config.maxAgents) return undefined;
    this.#places += 1;
    let isTaken = true;
    return () => {
      if (isTaken) this.#places -= 1;
      isTaken = false;
    };
  }

  full(): RelayError {
    const { maxAgents } = this.#options.config;
    return new RelayError(
      'too_many_open',
      `${maxAgents} agents run on this node, which is its limit: release a session, or raise RELAY_MAX_AGENTS`,
    );
  }

  /** `workspace`: relative to that of the tenant. Throws `workspace_missing`, or `invalid_request`. */
  async prepare(ref: SessionRef, workspace = '.'): Promise<PreparedProcess> {
    const { vault, workspaces, defaultTenantId, sandbox, log } = this.#options;
    const { tenantId } = ref;
    if (this.#url === undefined) {
      throw new RelayError('harness_failed', 'An agent needs a server that listens on a port');
    }
    const root = workspaces.folderOf(tenantId);
    if (root === undefined) {
      throw new RelayError(
        'workspace_missing',
        'The tenant has no workspace for agents: the operator sets that of the tenant default with RELAY_WORKSPACE, and that of others with relay bootstrap --tenant NAME --workspace FOLDER',
      );
    }
    const folder = await folderIn(root, workspace);
    const home = this.#homeOf(ref);
    await mkdir(home, { recursive: true, mode: 0o700 });
    const token = makeSessionToken();
    log.addSecret(token);
    const credential = async (provider: string) => {
      const record = await vault.read(tenantId, provider);
      if (record === undefined) return undefined;
      const apiKey = vault.secretOf(tenantId, record);
      return { apiKey, ...defined({ baseUrl: record.baseUrl ?? undefined }) };
    };
    return {
      process: {
        tenantId,
        isDefaultTenant: tenantId === defaultTenantId,
        workspace: folder,
        home: await realpath(home),
        hidden: () => workspaces.hiddenFrom(tenantId),
        ...defined({ sandbox }),
        mcp: { url: this.#url, token },
        credential,
      },
      tokenHash: hashApiKey(token),
      workspace: relative(root, folder) || '.',
    };
  }

  get #homes(): string {
    return join(this.#options.config.dataDir, 'agents');
  }

  #homeOf({ tenantId, sessionId }: SessionRef): string {
    return join(this.#homes, tenantId, sessionId);
  }

  /** Removes what only this session used, if it has ended. Never rejects. */
  async removeIfEnded(ref: SessionRef): Promise<void> {
    const { store, log } = this.#options;
    try {
      const session = await store.tenant(ref.tenantId).sessions.read(ref.sessionId);
      const isOpen = session !== undefined && session.releasedAt === null;
      if (isOpen && session.state.lifecycle !== 'failed') return;
      // A process that is being killed may still write.
      const retries = { maxRetries: 10, retryDelay: 100 };
      await rm(this.#homeOf(ref), { recursive: true, force: true, ...retries });
    } catch (error) {
      log.warn('Failed to remove the home folder of a session', { ...ref, error: String(error) });
    }
  }

  /** Of sessions that ended while no server ran. */
  async removeLeftovers(): Promise<void> {
    for (const tenantId of await namesIn(this.#homes)) {
      for (const sessionId of await namesIn(join(this.#homes, tenantId))) {
        await this.removeIfEnded({ tenantId, sessionId });
      }
    }
  }
}

async function folderIn(root: string, workspace: string): Promise<string> {
  const path = await realPathOf(resolve(root, workspace));
  if (!isWithin(root, path)) {
    throw invalidField('workspace', 'Must be a folder inside the workspace of the tenant');
  }
  const isFolder = await stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
  if (isFolder) return path;
  throw invalidField('workspace', 'There is no such folder in the workspace of the tenant');
}

async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}
