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
const openStatuses = ['queued', 'running', 'waiting'] as const;

export class AllRuns {
  readonly #context: Context;
  readonly #client: RelayClient;
  readonly #filter: RunsFilter;
  /** Undefined: it has ended, or the filter excludes it. */
  readonly #followed = new Map<string, Followed | undefined>();
  readonly #startedAt = new Date();

  constructor(context: Context, client: RelayClient, filter: RunsFilter) {
    this.#context = context;
    this.#client = client;
    this.#filter = filter;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { print } = this.#context;
    let isLost = false;
    let isFirst = true;
    const feed = this.#client.feed({
      signal,
      reconnectTimeoutMs: Infinity,
      onDisconnect: () => {
        if (!isLost) print.note('The connection was lost; connecting again …');
        isLost = true;
      },
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
      if (isLost) print.note('Connected again.');
      isFirst = false;
      isLost = false;
    }
  }

  /** Of the runs that are open now, only what happens from now on is shown. */
  async #begin(): Promise<void> {
    const { items } = await this.#client.runs
      .list({ status: [...openStatuses], limit: 200 })
      .page();
    for (const run of items) this.#followed.set(run.id, { run, seq: run.lastSeq });
    const open = items.length === 1 ? '1 run is open' : `${items.length} runs are open`;
    if (!this.#context.print.json) {
      this.#context.print.note(`Following all runs; ${open}. Ctrl-C leaves.`);
    }
  }

  async #catchUp(): Promise<void> {
    const since = this.#startedAt.toISOString();
    const missed: string[] = [];
    for await (const { id } of this.#client.runs.list({ since, limit: 200 })) missed.push(id);
    for (const id of new Set([...missed.toReversed(), ...this.#followed.keys()])) {
      await this.#read(id);
    }
  }

  async #read(id: string): Promise<void> {
    if (!this.#followed.has(id)) this.#followed.set(id, await this.#follow(id));
    const followed = this.#followed.get(id);
    if (followed === undefined) return;
    for await (const event of this.#client.runs.events(id, { after: followed.seq })) {
      followed.seq = event.seq;
      this.#show(followed.run, event);
      if (event.type === 'run.ended') this.#followed.set(id, undefined);
    }
  }

  /** Undefined if the filter excludes it. */
  async #follow(id: string): Promise<Followed | undefined> {
    const run = await this.#client.runs.get(id);
    const { agent, label } = this.#filter;
    const [name = '', ...value] = label?.split(':') ?? [];
    if (agent !== undefined && run.agent !== agent) return undefined;
    if (label !== undefined && run.labels[name] !== value.join(':')) return undefined;
    const isNew = Date.parse(run.createdAt) >= this.#startedAt.getTime();
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
