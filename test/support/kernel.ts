/** The kernel without HTTP: real loop, real store, scripted model, recording tools. */
import { createHash } from 'node:crypto';
import {
  type AgentDefinition,
  type Clock,
  type RunControl,
  createAgentRegistry,
  defaultSettings,
  type Engine,
  type Ids,
  type Model,
  type ModelRegistry,
  type Price,
  type RunIdentity,
  type RunRef,
  type RunCaller,
  type RunSpec,
  type Settings,
  SessionAttendant,
  startRun,
  Supervisor,
  type Publisher,
  systemClock,
  type SystemStore,
  type Tool,
  MemoryBudget,
  nativeHarness,
  NativeTurns,
  TranscriptCache,
} from '@relay/core';
import type { StoredEvent } from '@relay/protocol';
import { uuidv7 } from 'uuidv7';

export interface KernelOptions {
  readonly store: SystemStore;
  /** What every name stands for, unless `models` says which names there are. */
  readonly model: Model;
  readonly models?: Readonly<Record<string, Model>>;
  readonly prices?: Readonly<Record<string, Price>>;
  readonly tools?: readonly Tool[];
  readonly agents?: readonly AgentDefinition[];
  readonly clock?: Clock;
  readonly settings?: Partial<Settings>;
  /** Default: unlimited. */
  readonly memoryBytes?: number;
  readonly ids?: Ids;
  readonly rules?: NonNullable<Engine['rules']>;
  readonly audit?: NonNullable<Engine['audit']>;
  readonly budgets?: NonNullable<Engine['budgets']>;
  /** Also receives what is published, batch by batch. */
  readonly observe?: Publisher['publish'];
  /** Starts the turns of native sessions. */
  readonly sessions?: boolean;
  /** What an earlier process held is free, as after a restart. */
  readonly restarted?: boolean;
}

export interface Kernel {
  readonly control: RunControl;
  readonly store: SystemStore;
  readonly tenantId: string;
  readonly published: StoredEvent[];
  readonly warnings: string[];
  stop(): Promise<void>;
}

export async function bootKernel(options: KernelOptions): Promise<Kernel> {
  const { store, tools = [], clock = systemClock } = options;
  const published: StoredEvent[] = [];
  const warnings: string[] = [];
  const log = (message: string, fields?: object) =>
    warnings.push(`${message} ${JSON.stringify(fields ?? {})}`);
  const engine: Engine = {
    store,
    transcripts: new TranscriptCache(),
    memory: new MemoryBudget(options.memoryBytes ?? Infinity),
    clock,
    ids: options.ids ?? { next: uuidv7 },
    digest: (text) => createHash('sha256').update(text).digest('hex'),
    publisher: {
      publish(runId, events, tenantId) {
        published.push(...events);
        options.observe?.(runId, events, tenantId);
      },
    },
    log: { warn: log, error: log },
    settings: {
      ...defaultSettings,
      node: uuidv7(),
      graceMs: 200,
      stopTimeoutMs: 200,
      lateAnswerMs: 0,
      suspectDelayMs: 0,
      providerAttempts: 4,
      ...options.settings,
    },
    models: () => modelsOf(options),
    agents: () => createAgentRegistry(options.agents ?? []),
    tools: () => ({ find: (name) => tools.find((tool) => tool.name === name), list: () => tools }),
    notifyRun: (ref) => supervisor.notify(ref),
    ...(options.sessions === true ? { sessionDue: (ref) => void attendant.wake(ref) } : {}),
    ...(options.rules === undefined ? {} : { rules: options.rules }),
    ...(options.audit === undefined ? {} : { audit: options.audit }),
    ...(options.budgets === undefined ? {} : { budgets: options.budgets }),
  };
  const supervisor = new Supervisor(engine);
  const control = { engine, supervisor };
  const turns = new NativeTurns(control);
  const attendant = new SessionAttendant({
    engine,
    attend: async (session) =>
      session.harness === nativeHarness ? turns.attend(session) : undefined,
  });
  const tenant = await store.ensureTenant({ id: uuidv7(), name: 'test', at: clock.now() });
  if (options.restarted === true) await store.releaseAllLeases();
  supervisor.start();
  if (options.sessions === true) attendant.start();
  return {
    control,
    store,
    tenantId: tenant.id,
    published,
    warnings,
    async stop() {
      await attendant.stop();
      await supervisor.stop();
    },
  };
}

function modelsOf({ model, models, prices = {} }: KernelOptions): ModelRegistry {
  return {
    resolve: (name) => (models === undefined || name === 'scripted' ? model : models[name]),
    list: () => [],
    price: (name) => prices[name],
  };
}

export type AskOptions = Partial<RunSpec & RunCaller>;

export function ask(kernel: Kernel, asked: AskOptions = {}): Promise<RunIdentity> {
  const { tenantId = kernel.tenantId, correlationId = 'test', by = tester, ...rest } = asked;
  const { keyId, traceparent, runId, agentId, idempotency, connectionId, ...spec } = rest;
  const request = { keyId, traceparent, runId, agentId, idempotency, connectionId };
  return startRun(
    kernel.control,
    {
      surface: 'runs',
      agent: 'assistant',
      model: 'scripted',
      messages: [{ role: 'user', content: 'Begin' }],
      prompt: 'append',
      tools: kernel.control.engine
        .tools(tenantId)
        .list()
        .map((tool) => tool.name),
      permissions: {},
      maxIterations: 10,
      ...spec,
    },
    { tenantId, correlationId, by, ...request },
  );
}

const tester = { type: 'system', id: 'relay', name: 'relay' } as const;

/** The whole journal of a run, from the store. */
export async function journalOf(store: SystemStore, ref: RunRef): Promise<StoredEvent[]> {
  const events: StoredEvent[] = [];
  for (;;) {
    const page = await store
      .tenant(ref.tenantId)
      .readEvents(ref.runId, { after: events.length, limit: 1000 });
    if (page.length === 0) return events;
    events.push(...page);
  }
}

/** Waits for something to become true of the stored journal. */
export async function until<Value>(
  look: () => Promise<Value | undefined | false>,
  what = 'what was waited for',
): Promise<Value> {
  const deadline = Date.now() + 15_000;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    if (Date.now() > deadline) throw new Error(`Timed out waiting for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

export function untilStatus(kernel: Kernel, runId: string, ...statuses: string[]) {
  return until(async () => {
    const run = await kernel.store.tenant(kernel.tenantId).readRun(runId);
    return run !== undefined && statuses.includes(run.status) ? run : undefined;
  }, statuses.join(' or '));
}

/** Calls that a client was asked to run and that have no result yet. */
export function openClientCalls(events: readonly StoredEvent[]) {
  const settled = new Set(
    events.flatMap((event) =>
      event.type === 'tool.completed' || event.type === 'tool.failed' ? [event.toolCallId] : [],
    ),
  );
  return events.filter(
    (event): event is Extract<StoredEvent, { type: 'tool.started' }> =>
      event.type === 'tool.started' && event.via === 'client' && !settled.has(event.toolCallId),
  );
}

/** Pending approvals of a run. */
export function openApprovals(events: readonly StoredEvent[]) {
  const answered = new Set(
    events.flatMap((event) =>
      event.type === 'approval.decided' ||
      event.type === 'approval.expired' ||
      event.type === 'approval.closed'
        ? [event.approvalId]
        : [],
    ),
  );
  return events.filter(
    (event) => event.type === 'approval.requested' && !answered.has(event.approvalId),
  ) as Extract<StoredEvent, { type: 'approval.requested' }>[];
}

export const person = { type: 'key', id: 'key-1', name: 'ada' } as const;
