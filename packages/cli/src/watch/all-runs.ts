/**
 * The events of all runs of the tenant as they happen. The feed says which run has changed; its new events
 * are read from its journal, so none is missed while the connection is lost.
 */
import type { RelayClient, Run, RunsQuery, StoredEvent } from '@relay/sdk';
import type { Context } from '../command.ts';
import { isUnavailable } from '../errors.ts';
import { escapeLine, widthOf } from '../output/escape.ts';
import type { Style } from '../output/paint.ts';
import { runEventText } from '../output/run-events.ts';
import { shortId } from '../output/short-id.ts';

export interface RunsFilter extends Pick<RunsQuery, 'agent' | 'label'> {
  readonly status?: 'completed' | 'failed' | 'canceled';
}

interface Followed {
  readonly run: Run;
  /** The last event that was read. */
  seq: number;
}

const runStyles: readonly Style[] = ['cyan', 'magenta', 'green', 'blue', 'yellow'];
/** `12:30:00`, and two gaps. */
const timeWidth = 12;
const overlapMs = 60_000;
const mostDone = 10_000;
const openStatuses = ['queued', 'running', 'waiting'] as const;

export class AllRuns {
  readonly #context: Context;
  readonly #client: RelayClient;
  readonly #filter: RunsFilter;
  /** Open runs. */
  readonly #followed = new Map<string, Followed>();
  /** The last runs that have ended or that the filter excludes: the feed can name them again. */
  readonly #done = new Set<string>();
  readonly #startedAt = Date.now();
  /** The creation of the newest run. */
  #newestAt = this.#startedAt;

  constructor(context: Context, client: RelayClient, filter: RunsFilter) {
    this.#context = context;
    this.#client = client;
    this.#filter = filter;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { print } = this.#context;
    let isFirst = true;
    const feed = this.#client.feed({
      signal,
      reconnectTimeoutMs: Infinity,
      onDisconnect: ({ attempt }) => {
        if (attempt === 1) print.note('The connection was lost; connecting again …');
      },
      onReconnect: () => print.note('Connected again.'),
    });
    for await (const event of feed) {
      try {
        if (event.kind === 'run') await this.#read(event.id);
        if (event.kind !== 'connected' && event.kind !== 'all') continue;
        if (isFirst) await this.#begin();
        else await this.#catchUp();
      } catch (error) {
        // What is missing is read when the feed is connected again.
        if (!isUnavailable(error)) throw error;
        continue;
      }
      isFirst = false;
    }
  }

  /** Of the runs that are open now, only what happens from now on is shown. */
  async #begin(): Promise<void> {
    for await (const run of this.#client.runs.list({ status: [...openStatuses], limit: 200 })) {
      this.#followed.set(run.id, { run, seq: run.lastSeq });
    }
    const { size } = this.#followed;
    const open = size === 1 ? '1 run is open' : `${size} runs are open`;
    if (!this.#context.print.json) {
      this.#context.print.note(`Following all runs; ${open}. Ctrl-C leaves.`);
    }
  }

  async #catchUp(): Promise<void> {
    // The feed has named all that are older, but not quite in order.
    const since = new Date(Math.max(this.#startedAt, this.#newestAt - overlapMs)).toISOString();
    const missed: string[] = [];
    for await (const { id } of this.#client.runs.list({ since, limit: 200 })) missed.push(id);
    for (const id of new Set([...missed.toReversed(), ...this.#followed.keys()])) {
      await this.#read(id);
    }
  }

  async #read(id: string): Promise<void> {
    if (this.#done.has(id)) return;
    const followed = this.#followed.get(id) ?? (await this.#follow(id));
    if (followed === undefined) {
      this.#drop(id);
      return;
    }
    this.#followed.set(id, followed);
    for await (const event of this.#client.runs.events(id, { after: followed.seq })) {
      followed.seq = event.seq;
      this.#show(followed.run, event);
      if (event.type === 'run.ended') this.#drop(id);
    }
  }

  #drop(id: string): void {
    this.#followed.delete(id);
    this.#done.add(id);
    const [oldest = id] = this.#done;
    if (this.#done.size > mostDone) this.#done.delete(oldest);
  }

  /** Undefined if the filter excludes it. */
  async #follow(id: string): Promise<Followed | undefined> {
    const run = await this.#client.runs.get(id);
    const createdAt = Date.parse(run.createdAt);
    this.#newestAt = Math.max(this.#newestAt, createdAt);
    const { agent, label } = this.#filter;
    const [name = '', ...value] = label?.split(':') ?? [];
    if (agent !== undefined && run.agent !== agent) return undefined;
    if (label !== undefined && run.labels[name] !== value.join(':')) return undefined;
    const isNew = createdAt >= this.#startedAt;
    return { run, seq: isNew ? 0 : Math.max(0, run.lastSeq - 1) };
  }

  #show(run: Run, event: StoredEvent): void {
    const { print } = this.#context;
    if (!this.#isWanted(event)) return;
    if (print.json) {
      print.value({ runId: run.id, ...event });
      return;
    }
    const name = `${shortId(run.id)}  ${escapeLine(run.agent)}`;
    const room = (print.terminalColumns ?? Infinity) - timeWidth - widthOf(name);
    const text = runEventText(event, print.paint, room);
    if (text === undefined) return;
    const digits = Number.parseInt(shortId(run.id), 16);
    const style = runStyles[digits % runStyles.length] ?? 'cyan';
    const time = print.paint('dim', event.at.slice(11, 19));
    const who = print.paint(style, name);
    print.raw(`${time}  ${who}  ${text}\n`);
  }

  /** With a status, only the ends with it. */
  #isWanted(event: StoredEvent): boolean {
    const wanted = this.#filter.status;
    return wanted === undefined || (event.type === 'run.ended' && event.status === wanted);
  }
}
