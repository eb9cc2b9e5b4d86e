/** The composition root: the world is wired to core here, and nowhere else. */
import { createHash } from 'node:crypto';
import {
  type Clock,
  type Control,
  defaultSettings,
  type Engine,
  type Log,
  type ModelRegistry,
  Supervisor,
  type SystemStore,
  type ToolRegistry,
  TranscriptCache,
} from '@relay/core';
import { createDemoModel, createModelRegistry } from '@relay/models';
import { calculator, createSendNote, createToolRegistry } from '@relay/tools';
import type { FastifyInstance } from 'fastify';
import { uuidv7 } from 'uuidv7';
import { createApp } from './app.ts';
import { hangUpOrphans } from './chat-sessions.ts';
import { type Config, ConfigError } from './config.ts';
import type { ServerContext } from './context.ts';
import { Hub } from './hub.ts';
import { version } from './version.ts';

export const ids = { next: uuidv7 };

export interface World {
  readonly config: Config;
  readonly store: SystemStore;
  readonly log: Log;
  /** What replaces the built-in models or tools; for embedding and for tests. */
  readonly models?: ModelRegistry;
  readonly tools?: ToolRegistry;
}

export interface Relay {
  readonly app: FastifyInstance;
  readonly control: Control;
  readonly hub: Hub;
  /** Takes up what an earlier process left, and begins to look for work. */
  start(): Promise<void>;
  /** Lets go of all runs in good order. The store is the caller's to close. */
  stop(): Promise<void>;
}

export async function compose(world: World): Promise<Relay> {
  const { config, store, log } = world;
  const hub = new Hub();
  const models = world.models ?? builtInModels();
  const tools = world.tools ?? builtInTools(config);
  const { defaultModel } = config;
  if (defaultModel !== undefined && models.resolve(defaultModel) === undefined) {
    throw new ConfigError(`RELAY_DEFAULT_MODEL: no provider offers the model ${defaultModel}`);
  }
  const engine: Engine = {
    store,
    transcripts: new TranscriptCache(),
    clock: systemClock,
    ids,
    digest: (text) => createHash('sha256').update(text).digest('hex'),
    publisher: hub,
    log,
    settings: {
      ...defaultSettings,
      node: ids.next(),
      leaseTtlMs: config.leaseTtlMs,
      relayTtlMs: config.relayTtlMs,
      maxActiveRuns: config.maxActiveRuns,
    },
    models: () => models,
    tools: () => tools,
  };
  const control = { engine, supervisor: new Supervisor(engine) };
  const tenant = await store.ensureTenant({ id: ids.next(), name: 'default', at: Date.now() });
  let stopping = false;
  const context: ServerContext = {
    store,
    config,
    defaultTenantId: tenant.id,
    control,
    hub,
    version,
    isStopping: () => stopping,
  };
  const app = createApp(context);
  return {
    app,
    control,
    hub,
    async start() {
      await store.reclaimEverything();
      await hangUpOrphans({ control, config });
      control.supervisor.start();
    },
    async stop() {
      stopping = true;
      await control.supervisor.stop();
      await app.close();
    },
  };
}

function builtInModels(): ModelRegistry {
  return createModelRegistry([{ id: 'demo', provider: 'relay', model: createDemoModel() }]);
}

function builtInTools(config: Config): ToolRegistry {
  return createToolRegistry([calculator, createSendNote({ dataDir: config.dataDir })]);
}

const systemClock: Clock = {
  now: Date.now,
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      if (signal?.aborted === true) {
        resolve();
        return;
      }
      const done = () => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', done);
        resolve();
      };
      const timer = setTimeout(done, ms);
      signal?.addEventListener('abort', done);
    }),
};
