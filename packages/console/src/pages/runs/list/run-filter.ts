/** The filters of the list of runs, as the address of the page has them. */
import { defined, type Run, type RunsQuery, type RunStatus } from '@relay/protocol/wire';

export const statuses: readonly RunStatus[] = [
  'queued',
  'running',
  'waiting',
  'completed',
  'failed',
  'canceled',
];

export interface RunFilter {
  readonly statuses: readonly RunStatus[];
  readonly agent?: string;
  /** `name:value` */
  readonly label?: string;
  /** A time, or `today`, `24h`, `7d`: an address that is saved keeps its meaning. */
  readonly since?: string;
  readonly until?: string;
  readonly conversation?: string;
}

export function filterOf(params: URLSearchParams): RunFilter {
  const text = (name: string) => params.get(name) || undefined;
  const named = (params.get('status') ?? '').split(',');
  return defined({
    statuses: statuses.filter((status) => named.includes(status)),
    agent: text('agent'),
    label: text('label'),
    since: text('since'),
    until: text('until'),
    conversation: text('conversation'),
  });
}

/** The other way round; what is not set is left out. */
export function addressOf(filter: RunFilter): URLSearchParams {
  const { statuses: named, ...texts } = filter;
  const params = new URLSearchParams();
  if (named.length > 0) params.set('status', named.join(','));
  for (const [name, value] of Object.entries(texts)) {
    if (typeof value === 'string' && value !== '') params.set(name, value);
  }
  return params;
}

export function isEmpty(filter: RunFilter): boolean {
  return addressOf(filter).size === 0;
}

/** `now` resolves relative times. */
export function queryOf(filter: RunFilter, now: number): RunsQuery {
  const { statuses: named, agent, label, since, until, conversation } = filter;
  return defined({
    status: named.length === 0 ? undefined : [...named],
    agent,
    // The server refuses a label without a value.
    label: label?.includes(':') === true ? label : undefined,
    since: timeOf(since, now),
    until: timeOf(until, now),
    conversationId: conversation,
  });
}

const relative = /^(\d+)(h|d)$/;

/** Undefined for a text that is no time. */
export function timeOf(text: string | undefined, now: number): string | undefined {
  if (text === undefined) return undefined;
  if (text === 'today') {
    const midnight = new Date(now);
    midnight.setHours(0, 0, 0, 0);
    return midnight.toISOString();
  }
  const [, count, unit] = relative.exec(text) ?? [];
  if (count !== undefined) {
    return new Date(now - Number(count) * (unit === 'h' ? 3_600_000 : 86_400_000)).toISOString();
  }
  const time = Date.parse(text);
  return Number.isNaN(time) ? undefined : new Date(time).toISOString();
}

export interface SavedView {
  readonly name: string;
  readonly filter: RunFilter;
}

export const savedViews: readonly SavedView[] = [
  { name: 'All', filter: { statuses: [] } },
  { name: 'Waiting for people', filter: { statuses: ['waiting'] } },
  { name: 'Working', filter: { statuses: ['queued', 'running'] } },
  { name: 'Failed today', filter: { statuses: ['failed'], since: 'today' } },
  { name: 'Last 24 hours', filter: { statuses: [], since: '24h' } },
];

export function isSameView(one: RunFilter, other: RunFilter): boolean {
  return addressOf(one).toString() === addressOf(other).toString();
}

/** What a run was asked, in one line. */
export function inputText({
  input,
  inputTruncated,
}: Pick<Run, 'input' | 'inputTruncated'>): string {
  if (input === null) return inputTruncated === true ? '(long input)' : '(no input)';
  if (typeof input === 'string') return firstWords(input);
  const last = input.findLast(({ role }) => role === 'user') ?? input.at(-1);
  const content = last?.content ?? '';
  if (typeof content === 'string') return firstWords(content);
  return firstWords(
    content.map((part) => (part.type === 'text' ? part.text : `[${part.type}]`)).join(' '),
  );
}

const mostCharacters = 240;

function firstWords(text: string): string {
  return text.slice(0, mostCharacters).replace(/\s+/g, ' ').trim();
}

/**
 * A list that was loaded in several pages, after its first page was loaded again: what is older than that
 * page is kept, without runs that are now in it.
 */
export function mergeFirstPage(
  loaded: readonly Run[],
  first: readonly Run[],
  hasMore: boolean,
): Run[] {
  const oldest = first.at(-1);
  if (oldest === undefined || !hasMore) return [...first];
  const ids = new Set(first.map(({ id }) => id));
  const isOlder = (run: Run) =>
    run.createdAt < oldest.createdAt || (run.createdAt === oldest.createdAt && run.id < oldest.id);
  return [...first, ...loaded.filter((run) => !ids.has(run.id) && isOlder(run))];
}
