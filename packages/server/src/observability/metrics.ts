/**
 * The metrics of `/metrics`. Counters follow published events; gauges are read on each scrape. The
 * operator sees the whole node, an administrator of a tenant only what belongs to that tenant.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { DamagedRow, InvocationRecord, MessageNotice, SystemStore } from '@relay/core';
import type { StoredEvent } from '@relay/protocol';
// Not from 'prom-client' itself: that also loads metrics of the process, and with them OpenTelemetry.
import Counter from 'prom-client/lib/counter.js';
import Gauge from 'prom-client/lib/gauge.js';
import Histogram from 'prom-client/lib/histogram.js';
import Registry from 'prom-client/lib/registry.js';

/** Each sample of the delay wakes an idle process. */
const delaySampleMs = 1_000;
const buckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

export interface Gauges {
  readonly activeRuns: () => number;
  readonly openStreams: () => number;
}

export class Metrics {
  readonly #store: SystemStore;
  readonly #registry = new Registry();
  readonly #delay = monitorEventLoopDelay({ resolution: delaySampleMs });
  /** With the label that each has besides the tenant. */
  readonly #counters = new Map<Counter, string | undefined>();
  readonly #started = this.#counter('relay_runs_started_total');
  readonly #ended = this.#counter('relay_runs_ended_total', 'status');
  readonly #toolCalls = this.#counter('relay_tool_calls_total', 'outcome');
  readonly #tokens = this.#counter('relay_tokens_total', 'direction');
  readonly #approvalsRequested = this.#counter('relay_approvals_requested_total');
  readonly #damagedRows = this.#counter('relay_damaged_rows_total', 'table');
  readonly #refused = this.#counter('relay_refused_requests_total', 'code');
  readonly #messages = this.#counter('relay_messages_sent_total');
  readonly #deliveries = this.#counter('relay_deliveries_total', 'status');
  readonly #invocations = this.#counter('relay_invocations_total', 'status');
  readonly #firstToken = this.#histogram(
    'relay_first_token_seconds',
    'Time from the start of a run to its first token',
  );
  readonly #commit = this.#histogram(
    'relay_journal_commit_seconds',
    'Time from an event to its commit',
  );
  readonly #unknownKeys = new Counter({
    name: 'relay_unknown_keys_total',
    help: 'Requests with an API key that does not exist, since the start of this node',
    registers: [this.#registry],
  });
  readonly #awaitingToken = new Map<string, number>();

  constructor(store: SystemStore, { activeRuns, openStreams }: Gauges) {
    this.#store = store;
    this.#delay.enable();
    const read: Readonly<Record<string, [help: string, read: () => number]>> = {
      relay_active_runs: ['Runs that this node drives', activeRuns],
      relay_open_streams: ['Open event streams on this node', openStreams],
      relay_event_loop_delay_seconds: [
        'Event loop delay, p99 of one sample per second',
        // A sample is the time since the one before.
        () => Math.max(0, this.#delay.percentile(99) / 1e9 - delaySampleMs / 1e3),
      ],
      relay_resident_memory_bytes: ['Resident memory', () => process.memoryUsage.rss()],
      relay_uptime_seconds: ['Time since the start', () => process.uptime()],
    };
    for (const [name, [help, value]] of Object.entries(read)) {
      const registers = [this.#registry];
      const gauge: Gauge = new Gauge({ name, help, registers, collect: () => gauge.set(value()) });
    }
  }

  stop(): void {
    this.#delay.disable();
  }

  /** Runs that have started here and have no token yet. */
  get awaitingFirstToken(): number {
    return this.#awaitingToken.size;
  }

  /** A row that decides who may do what was read, and is not as Relay wrote it. */
  damagedRow({ table, tenantId: tenant }: DamagedRow): void {
    this.#damagedRows.inc({ tenant, table });
  }

  /** A limit refused a request. The tenant is empty if the caller is not known. */
  refused(code: string, tenant: string): void {
    this.#refused.inc({ tenant, code });
  }

  /** Deliveries are counted by each status that they get. */
  publishMessage(tenant: string, { isSent, deliveries }: MessageNotice): void {
    if (isSent) this.#messages.inc({ tenant });
    for (const { status = 'accepted' } of deliveries) this.#deliveries.inc({ tenant, status });
  }

  /** Without a run; those of runs follow from their events. */
  approvalRequested(tenant: string): void {
    this.#approvalsRequested.inc({ tenant });
  }

  /** Invocations are counted by each status that they get. */
  publishInvocation(tenant: string, { status }: Pick<InvocationRecord, 'status'>): void {
    this.#invocations.inc({ tenant, status });
  }

  /** Of the node: such a key belongs to no tenant. */
  unknownKey(): void {
    this.#unknownKeys.inc();
  }

  publish(runId: string, events: readonly StoredEvent[], tenant: string): void {
    const [first] = events;
    if (first === undefined) {
      // The run continues on another node, which counts its first token.
      this.#awaitingToken.delete(runId);
      return;
    }
    const now = Date.now();
    this.#commit.observe(Math.max(0, now - Date.parse(first.at)) / 1000);
    // The most frequent case by far: more text of a run that had its first token.
    if (first.type === 'text.appended' && !this.#awaitingToken.has(runId)) {
      if (events.at(-1)?.type === 'text.appended') return;
    }
    for (const event of events) this.#count({ runId, tenant }, event, now);
  }

  #count({ runId, tenant }: { runId: string; tenant: string }, event: StoredEvent, now: number) {
    switch (event.type) {
      case 'run.started':
        this.#started.inc({ tenant });
        this.#awaitingToken.set(runId, Date.parse(event.at));
        break;
      case 'text.appended': {
        const since = this.#awaitingToken.get(runId);
        if (since === undefined) break;
        this.#awaitingToken.delete(runId);
        this.#firstToken.observe(Math.max(0, now - since) / 1000);
        break;
      }
      case 'turn.completed':
        this.#tokens.inc({ tenant, direction: 'in' }, event.usage.inputTokens);
        this.#tokens.inc({ tenant, direction: 'out' }, event.usage.outputTokens);
        break;
      case 'tool.completed':
        this.#toolCalls.inc({ tenant, outcome: 'completed' });
        break;
      case 'tool.failed':
        this.#toolCalls.inc({ tenant, outcome: 'failed' });
        break;
      case 'tool.denied':
        this.#toolCalls.inc({ tenant, outcome: event.status });
        break;
      case 'approval.requested':
        this.#approvalsRequested.inc({ tenant });
        break;
      // The wait for an approver is not model latency.
      case 'run.suspended':
        this.#awaitingToken.delete(runId);
        break;
      case 'run.ended':
        this.#awaitingToken.delete(runId);
        this.#ended.inc({ tenant, status: event.status });
        break;
      default:
        break;
    }
  }

  /** The metrics of this node and all tenants, or only those of one tenant. */
  async render(tenantId?: string): Promise<string> {
    const tenants = new Registry();
    await this.#gaugeOpen(tenants, tenantId);
    for (const [counter, label] of this.#counters) {
      const { name, help, values } = await counter.get();
      const labelNames = label === undefined ? [] : [label];
      const shown = new Counter({ name, help, labelNames, registers: [tenants] });
      for (const { labels, value } of values) {
        const { tenant, ...others } = labels;
        if (tenantId === undefined || tenant === tenantId) shown.inc(others, value);
      }
    }
    const registries = tenantId === undefined ? [tenants, this.#registry] : [tenants];
    return Registry.merge(registries).metrics();
  }

  async #gaugeOpen(registry: Registry, tenantId: string | undefined): Promise<void> {
    const { runs, approvals } = await this.#store.stats(tenantId);
    const gauge = (name: string, help: string, ...labelNames: string[]) =>
      new Gauge({ name, help, labelNames, registers: [registry] });
    const open = gauge('relay_runs', 'Open runs by status', 'status');
    for (const [status, count] of Object.entries(runs)) open.set({ status }, count);
    const waiting = gauge('relay_approvals_waiting', 'Approvals that wait for a decision');
    waiting.set(approvals.pending);
    const oldest = gauge('relay_approvals_oldest_seconds', 'Age of the oldest waiting approval');
    const { oldestAt } = approvals;
    oldest.set(oldestAt === null ? 0 : Math.max(0, Date.now() - oldestAt) / 1000);
    const { byStatus, queued, stuck } = await this.#store.sessions.counts(Date.now(), tenantId);
    const sessions = gauge('relay_sessions', 'Sessions that are not released, by status', 'status');
    for (const [status, count] of Object.entries(byStatus)) sessions.set({ status }, count);
    gauge('relay_sessions_queued', 'Messages in the inboxes of sessions').set(queued);
    gauge('relay_sessions_stuck', 'Sessions that do not take messages though they could').set(
      stuck,
    );
  }

  /** Counts per tenant, and by one more label if it is named. */
  #counter(name: string, label?: string): Counter {
    const labelNames = label === undefined ? ['tenant'] : ['tenant', label];
    const counter = new Counter({
      name,
      help: 'Since the start of this node',
      labelNames,
      registers: [],
    });
    this.#counters.set(counter, label);
    return counter;
  }

  #histogram(name: string, help: string): Histogram {
    return new Histogram({ name, help, buckets, registers: [this.#registry] });
  }
}
