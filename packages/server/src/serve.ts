/** The server as a process: lock, store, listen, and leave in good order. */
import type { AddressInfo } from 'node:net';
import type { ModelRegistry, SystemStore, ToolRegistry } from '@relay/core';
import { tellOfRestore } from './audit/operator.ts';
import { loadConfigFile } from './config/config-file.ts';
import { compose, type Relay } from './compose.ts';
import { type Config, readConfig } from './config/config.ts';
import { showFirstKey } from './secrets/first-key.ts';
import { createLog, type ServerLog } from './observability/log.ts';
import { openStore } from './open-store.ts';
import { unknownSettings } from './config/unknown-settings.ts';

export interface ServeOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly terminal: boolean;
  readonly say: (line: string) => void;
  /** What replaces the built-in models and tools. */
  readonly models?: ModelRegistry;
  readonly tools?: (config: Config) => ToolRegistry;
}

export interface Serving {
  readonly url: string;
  readonly log: ServerLog;
  stop(): Promise<void>;
}

export interface Opened {
  readonly config: Config;
  readonly store: SystemStore;
  readonly relay: Relay;
  readonly log: ServerLog;
  /** Shows the first key, if there is none yet: when nothing can fail any more, because it is shown once. */
  readonly showFirstKey: () => Promise<void>;
  readonly stop: () => Promise<void>;
}

/** Everything but the port: locked, stored and at work. */
export async function openRelay(options: ServeOptions): Promise<Opened> {
  const config = readConfig(options.env, options.cwd);
  const file = await loadConfigFile(options.env, options.cwd);
  const log = createLog({ level: config.logLevel, terminal: process.stderr.isTTY });
  for (const sentence of unknownSettings(options.env)) log.warn(sentence);
  const closing: (() => Promise<void> | void)[] = [];
  const stop = async () => {
    for (const close of closing.splice(0).toReversed()) await close();
  };
  try {
    const opened = await openStore(config, 'server', (line) => log.warn(line));
    const { store } = opened;
    closing.push(() => opened.close());
    const relay = await compose({
      config,
      file,
      store,
      log,
      ...(options.models === undefined ? {} : { models: options.models }),
      ...(options.tools === undefined ? {} : { tools: options.tools(config) }),
    });
    closing.push(() => relay.stop());
    await relay.start();
    const { dataDir } = config;
    const { terminal, say } = options;
    const { audit } = relay.control.engine;
    await tellOfRestore(store, audit, dataDir);
    return {
      config,
      store,
      relay,
      log,
      async showFirstKey() {
        for (const line of await showFirstKey(store, { dataDir, terminal, audit })) say(line);
      },
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

export async function serve(options: ServeOptions): Promise<Serving> {
  const opened = await openRelay(options);
  const { config, relay, log, stop } = opened;
  try {
    await relay.app.listen({ host: config.host, port: config.port });
    await opened.showFirstKey();
    const url = urlOf(config, relay.app.server.address());
    options.say(`Relay is listening on ${url}`);
    return { url, log, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

function urlOf(config: Config, address: AddressInfo | string | null): string {
  const port = typeof address === 'object' && address !== null ? address.port : config.port;
  const host = config.host.includes(':') ? `[${config.host}]` : config.host;
  return `http://${host}:${port}`;
}
