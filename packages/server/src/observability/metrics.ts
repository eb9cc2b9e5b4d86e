/**
 * What `/metrics` tells, in Prometheus' text format. Counters grow with what is published after each
 * commit; gauges are looked up when somebody asks.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { SystemStore } from '@relay/core';
import type { StoredEvent } from '@relay/protocol';

const seconds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30] as const;

export interface Gauges {
  readonly activeRuns: () => number;
  readonly openStreams: () => number;
}

export class Metrics {
  readonly #store: SystemStore;
  readonly #gauges: Gauges;
  readonly #delay = monitorEventLoopDelay({ resolution: 20 });
  readonly #counts = new Map<string, number>();
  readonly #firstToken = new Histogram(seconds);
  readonly #commit = new Histogram(seconds);
  /** Runs that have begun and not said anything yet. */
  readonly #silent = new Map<string, number>();

  constructor(store: SystemStore, gauges: Gauges) {
    this.#store = store;
    this.#gauges = gauges;
    this.#delay.enable();
  }

  stop(): void {
    this.#delay.disable();
  }

  /** EventBuffer after each commit. It may not throw. */
  publish(runId: string, events: readonly StoredEvent[]): void {
    const [first] = events;
    if (first === undefined) {
      // The run was given up here: whoever goes on with it will hear its first word.
      this.#silent.delete(runId);
      return;
    }
    const now = Date.now();
    this.#commit.observe(Math.max(0, now - Date.parse(first.at)) / 1000);
    // A row of words of a run that has spoken before is by far the most frequent.
    if (first.type === 'text.appended' && !this.#silent.has(runId)) {
      if (events.at(-1)?.type === 'text.appended') return;
    }
    for (const event of events) this.#count(runId, event, now);
  }

  #count(runId: string, event: StoredEvent, now: number): void {
    switch (event.type) {
      case 'run.started':
        this.#add('relay_runs_started_total');
        this.#silent.set(runId, Date.parse(event.at));
        break;
      case 'text.appended': {
        const since = this.#silent.get(runId);
        if (since === undefined) break;
        this.#silent.delete(runId);
        this.#firstToken.observe(Math.max(0, now - since) / 1000);
        break;
      }
      case 'turn.completed':
        this.#add('relay_tokens_total{direction="in"}', event.usage.inputTokens);
        this.#add('relay_tokens_total{direction="out"}', event.usage.outputTokens);
        break;
      case 'tool.completed':
        this.#add('relay_tool_calls_total{outcome="completed"}');
        break;
      case 'tool.failed':
        this.#add('relay_tool_calls_total{outcome="failed"}');
        break;
      case 'tool.denied':
        this.#add(`relay_tool_calls_total{outcome="${event.status}"}`);
        break;
      case 'approval.requested':
        this.#add('relay_approvals_requested_total');
        break;
      // How long people take is not how long models take.
      case 'run.suspended':
        this.#silent.delete(runId);
        break;
      case 'run.ended':
        this.#silent.delete(runId);
        this.#add(`relay_runs_ended_total{status="${event.status}"}`);
        break;
      default:
        break;
    }
  }

  async render(): Promise<string> {
    const { runs, approvals } = await this.#store.stats();
    const age =
      approvals.oldestAt === null ? 0 : Math.max(0, Date.now() - approvals.oldestAt) / 1000;
    const lines = [
      ...family('relay_runs', 'gauge', 'Runs that are not over, by status'),
      ...Object.entries(runs).map(([status, count]) => `relay_runs{status="${status}"} ${count}`),
      ...gauge(
        'relay_approvals_waiting',
        'Requests to people without an answer',
        approvals.pending,
      ),
      ...gauge('relay_approvals_oldest_seconds', 'How long the oldest of them waits', age),
      ...gauge('relay_active_runs', 'Runs that this node drives', this.#gauges.activeRuns()),
      ...gauge('relay_open_streams', 'Streams that are open here', this.#gauges.openStreams()),
      ...gauge('relay_event_loop_delay_seconds', 'p99', this.#delay.percentile(99) / 1e9),
      ...gauge('relay_resident_memory_bytes', 'Memory', process.memoryUsage.rss()),
      ...gauge('relay_uptime_seconds', 'Since the start', process.uptime()),
      ...this.#counters(),
      ...this.#firstToken.lines(
        'relay_first_token_seconds',
        'From a run’s start to its first token',
      ),
      ...this.#commit.lines('relay_journal_commit_seconds', 'From an event to its being stored'),
    ];
    return `${lines.join('\n')}\n`;
  }

  #counters(): string[] {
    const names = new Set([...this.#counts.keys()].map((key) => key.split('{')[0] ?? key));
    return [...names].flatMap((name) => [
      ...family(name, 'counter', 'Since the start of this node'),
      ...[...this.#counts]
        .filter(([key]) => key === name || key.startsWith(`${name}{`))
        .map(([key, count]) => `${key} ${count}`),
    ]);
  }

  #add(key: string, count = 1): void {
    this.#counts.set(key, (this.#counts.get(key) ?? 0) + count);
  }
}

class Histogram {
  readonly #bounds: readonly number[];
  readonly #counts: number[];
  #sum = 0;
  #total = 0;

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = bounds.map(() => 0);
  }

  observe(value: number): void {
    this.#sum += value;
    this.#total += 1;
    const bucket = this.#bounds.findIndex((bound) => value <= bound);
    if (bucket >= 0) this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1;
  }

  lines(name: string, help: string): string[] {
    let below = 0;
    return [
      ...family(name, 'histogram', help),
      ...this.#bounds.map((bound, index) => {
        below += this.#counts[index] ?? 0;
        return `${name}_bucket{le="${bound}"} ${below}`;
      }),
      `${name}_bucket{le="+Inf"} ${this.#total}`,
      `${name}_sum ${this.#sum}`,
      `${name}_count ${this.#total}`,
    ];
  }
}

function family(name: string, type: 'gauge' | 'counter' | 'histogram', help: string): string[] {
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`];
}

function gauge(name: string, help: string, value: number): string[] {
  return [...family(name, 'gauge', help), `${name} ${value}`];
}
