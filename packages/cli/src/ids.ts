/**
 * The ids that a person gives to a command: a whole id, at least 4 characters of its beginning or its end,
 * or `latest`. On a terminal the id can be left out, and is chosen from a list.
 *
 * Tables on a terminal show the last 8 characters. Ids begin with the time at which they were made, so
 * those of one minute begin alike; their ends are random.
 */
import type { RelayClient } from '@relay/sdk';
import type { Context } from './command.ts';
import { terminalWidth, relay } from './environment.ts';
import { CliError, exitCodes, usageError } from './errors.ts';
import { cutTo, escapeLine } from './output/escape.ts';
import { inputText } from './output/run-events.ts';
import { isId, shortId } from './output/short-id.ts';
import { age } from './output/table.ts';

export type IdKind = Parameters<RelayClient['findIds']>[0]['kind'];

/** What an id belongs to, in one line. */
export interface Candidate {
  readonly id: string;
  readonly at?: string | undefined;
  readonly text: string;
}

interface Source {
  /** The command that shows ids of this kind. */
  readonly listed?: string;
  /** What the recent ones are, if not all of the kind. */
  readonly noun?: string;
  /** The most useful first. */
  readonly recent?: (client: RelayClient, limit: number) => Promise<readonly Candidate[]>;
  /** Default: looked for among the recent ones. */
  readonly get?: (client: RelayClient, id: string) => Promise<Candidate>;
}

const partForm = /^[0-9a-f-]{4,36}$/i;

/** Whether it can be a part of an id. */
export function isPartOfId(text: string): boolean {
  return partForm.test(text);
}

/** The id of this kind that the person means. */
export async function resolveId(
  context: Context,
  kind: IdKind,
  given: string | undefined,
): Promise<string> {
  if (given === undefined) return pick(context, kind);
  if (isId(given)) return given.toLowerCase();
  const client = await context.client();
  if (given === 'latest') return latest(client, kind);
  if (!isPartOfId(given)) throw invalidId(kind, given);
  const { ids, more } = await client.findIds({ kind, match: given });
  const [only, ...others] = ids;
  if (only === undefined)
    throw notFound(kind, `No ${kind} has an id that begins or ends with ${given}`);
  if (others.length === 0) return only;
  const number = more ? `more than ${ids.length}` : String(ids.length);
  throw ambiguous(
    `${given} is part of the ids of ${number} ${plural(kind)}`,
    await describe(client, kind, ids),
  );
}

function ambiguous(message: string, candidates: readonly Candidate[]): CliError {
  return new CliError('ambiguous_id', message, {
    exit: exitCodes.usage,
    hint: 'use one of these, or more characters:',
    candidates: candidates.map(lineOf),
  });
}

/** The same for what only a list of the server has, such as the deliveries of one webhook. */
export async function resolveAmong(
  context: Context,
  noun: string,
  given: string | undefined,
  recent: (limit: number) => Promise<readonly Candidate[]>,
): Promise<string> {
  if (given === undefined) {
    if (!canPick(context)) throw usageError(`Name a ${noun}`, '"latest" is the newest');
    return choose(context, noun, await recent(mostPicked));
  }
  const known = await recent(mostSearched);
  const isMeant = ({ id }: Candidate) =>
    given.length >= minLength && (id.startsWith(given) || id.endsWith(given));
  const [only, ...others] = given === 'latest' ? known.slice(0, 1) : known.filter(isMeant);
  if (only !== undefined && others.length === 0) return only.id;
  if (only !== undefined) {
    throw ambiguous(`${given} is part of several ${noun} ids`, [only, ...others]);
  }
  if (given === 'latest') throw notListed(`There is no ${noun}`);
  // It can be an older one.
  return given;
}

/** The same for a command that takes several. */
export async function resolveIds(
  context: Context,
  kind: IdKind,
  given: readonly string[],
): Promise<string[]> {
  if (given.length === 0) return [await resolveId(context, kind, undefined)];
  const ids: string[] = [];
  for (const each of given) ids.push(await resolveId(context, kind, each));
  return ids;
}

/** The most useful first, for the completion of a shell. */
export async function recentIds(
  client: RelayClient,
  kind: IdKind,
  limit: number,
): Promise<readonly Candidate[]> {
  return (await sources[kind].recent?.(client, limit)) ?? [];
}

async function latest(client: RelayClient, kind: IdKind): Promise<string> {
  const [first] = await recentIds(client, kind, 1);
  if (first !== undefined) return first.id;
  throw notFound(kind, `There is no ${sources[kind].noun ?? kind}`);
}

function invalidId(kind: IdKind, given: string): CliError {
  const { listed } = sources[kind];
  const see = listed === undefined ? '' : `; "${relay} ${listed}" shows them`;
  const latest = sources[kind].recent === undefined ? '' : ', or "latest"';
  return usageError(
    `"${given}" is not the id of ${article(kind)}`,
    `use the id, at least 4 characters of its beginning or end${latest}${see}`,
  );
}

function notFound(kind: IdKind, message: string): CliError {
  const { listed } = sources[kind];
  return notListed(message, listed === undefined ? undefined : `"${relay} ${listed}" shows them`);
}

function notListed(message: string, hint?: string): CliError {
  return new CliError('not_found', message, { exit: exitCodes.notFound, hint });
}

function article(kind: IdKind): string {
  return `${/^[aeiou]/.test(kind) ? 'an' : 'a'} ${kind}`;
}

function plural(kind: IdKind): string {
  return kind.endsWith('y') && kind !== 'key' ? `${kind.slice(0, -1)}ies` : `${kind}s`;
}

const mostPicked = 50;
const mostSearched = 200;
const minLength = 4;

/** Asks on a terminal. Elsewhere the id is missing. */
async function pick(context: Context, kind: IdKind): Promise<string> {
  const { recent } = sources[kind];
  if (!canPick(context) || recent === undefined) throw missing(kind);
  const candidates = await recent(await context.client(), mostPicked);
  if (candidates.length === 0) throw notFound(kind, `There is no ${sources[kind].noun ?? kind}`);
  return choose(context, kind, candidates);
}

function canPick({ environment: { stdin, stderr }, print }: Context): boolean {
  return stdin.isTTY === true && stderr.isTTY === true && !print.json;
}

async function choose(
  { environment: { stdin, stderr } }: Context,
  noun: string,
  candidates: readonly Candidate[],
): Promise<string> {
  if (candidates.length === 0) throw notListed(`There is no ${noun}`);
  const { isCancel, select } = await import('@clack/prompts');
  const width = terminalWidth(stderr) - 6;
  const chosen = await select({
    message: `Which ${noun}?`,
    options: candidates.map((each) => ({ value: each.id, label: cutTo(lineOf(each), width) })),
    maxItems: 10,
    input: stdin,
    output: stderr,
  });
  if (!isCancel(chosen)) return chosen;
  throw new CliError('interrupted', `No ${noun} was chosen`, { exit: exitCodes.interrupted });
}

function missing(kind: IdKind): CliError {
  const { listed, recent } = sources[kind];
  const name = article(kind);
  const see = listed === undefined ? [] : [`"${relay} ${listed}" shows them`];
  const newest = recent === undefined ? [] : ['"latest" is the newest'];
  return usageError(`Name ${name}`, [...see, ...newest].join('; ') || undefined);
}

const longestText = 120;

/** `4f1c09ab  3m ago  completed  say 5` */
function lineOf({ id, at, text }: Candidate): string {
  const time = at === undefined ? '' : `${age(at, Date.now()).padEnd(7)}  `;
  return `${shortId(id)}  ${time}${cutTo(escapeLine(text), longestText)}`;
}

async function describe(
  client: RelayClient,
  kind: IdKind,
  ids: readonly string[],
): Promise<readonly Candidate[]> {
  const { get } = sources[kind];
  if (get !== undefined) {
    // One that was deleted meanwhile is still a candidate.
    return Promise.all(ids.map((id) => get(client, id).catch(() => ({ id, text: '' }))));
  }
  const known = new Map((await recentIds(client, kind, 200)).map((each) => [each.id, each]));
  return ids.map((id) => known.get(id) ?? { id, text: '' });
}

type Items<Name extends 'runs' | 'approvals' | 'conversations' | 'messages'> =
  ReturnType<RelayClient[Name]['list']> extends AsyncIterable<infer Item> ? Item : never;

function ofRun(run: Items<'runs'>): Candidate {
  const { id, createdAt: at, status, agent } = run;
  return { id, at, text: `${status.padEnd(9)}  ${agent}  ${inputText(run)}` };
}

function ofApproval({ id, requestedAt, status, prompt, display }: Items<'approvals'>): Candidate {
  return { id, at: requestedAt, text: `${status.padEnd(8)}  ${prompt ?? display.text}` };
}

/** The newest first. */
export async function pendingApprovals(
  { approvals }: Pick<RelayClient, 'approvals'>,
  limit: number,
): Promise<readonly Candidate[]> {
  return (await approvals.list({ status: 'pending', limit }).page()).items.map(ofApproval);
}

function ofConversation(conversation: Items<'conversations'>): Candidate {
  const { id, updatedAt, status, title = '', runs } = conversation;
  const size = runs === 1 ? '1 run' : `${runs} runs`;
  return { id, at: updatedAt, text: `${status.padEnd(9)}  ${size}  ${title}` };
}

function ofMessage({ id, at, from, text }: Items<'messages'>): Candidate {
  return { id, at, text: `${from.name}: ${text}` };
}

const sources: Readonly<Record<IdKind, Source>> = {
  run: {
    listed: 'runs list',
    recent: async ({ runs }, limit) => (await runs.list({ limit }).page()).items.map(ofRun),
    get: async ({ runs }, id) => ofRun(await runs.get(id)),
  },
  approval: {
    listed: 'approvals list --all',
    // Those that wait for a decision first.
    async recent({ approvals }, limit) {
      const pending = await pendingApprovals({ approvals }, limit);
      if (pending.length >= limit) return pending;
      const all = (await approvals.list({ limit }).page()).items;
      const decided = all.filter(({ status }) => status !== 'pending');
      return [...pending, ...decided.map(ofApproval)].slice(0, limit);
    },
    get: async ({ approvals }, id) => ofApproval(await approvals.get(id)),
  },
  conversation: {
    listed: 'conversations list',
    recent: async ({ conversations }, limit) =>
      (await conversations.list({ limit }).page()).items.map(ofConversation),
    get: async ({ conversations }, id) => ofConversation(await conversations.get(id)),
  },
  session: {
    listed: 'sessions list',
    // Those that have ended last.
    async recent({ sessions }, limit) {
      const { items } = await sessions.list({ limit }).page();
      return items
        .toSorted((a, b) => Number(a.status === 'released') - Number(b.status === 'released'))
        .map(({ id, identity, status, lastActiveAt: at }) => ({
          id,
          at,
          text: `@${identity.handle}  ${status}`,
        }));
    },
    async get({ sessions }, id) {
      const { identity, status } = await sessions.get(id);
      return { id, text: `@${identity.handle}  ${status}` };
    },
  },
  message: {
    listed: 'messages list',
    recent: async ({ messages }, limit) =>
      (await messages.list({ limit }).page()).items.map(ofMessage),
    get: async ({ messages }, id) => ofMessage(await messages.get(id)),
  },
  delivery: {
    listed: 'sessions queue SESSION --failed',
    noun: 'failed delivery',
    // Only these can be delivered again.
    async recent({ deliveries }, limit) {
      const { items } = await deliveries.list({ status: 'failed', limit }).page();
      return items.map(({ id, handle, acceptedAt: at, error }) => ({
        id,
        at,
        text: `to @${handle}: ${error?.message ?? 'failed'}`,
      }));
    },
  },
  memory: {
    listed: 'memories list',
    async recent({ memories }, limit) {
      const { items } = await memories.list({ limit }).page();
      return items.map(({ id, createdAt: at, namespace, text }) => ({
        id,
        at,
        text: `${namespace}: ${text}`,
      }));
    },
  },
  grant: {
    listed: 'grants list',
    async recent({ grants }, limit) {
      const { items } = await grants.list({ limit }).page();
      return items.map(({ id, tool, scope, params, exact }) => ({
        id,
        text: `${tool} ${JSON.stringify(exact ?? params ?? {})}  ${scope}`,
      }));
    },
  },
  key: {
    listed: 'keys list',
    async recent({ keys }, limit) {
      const { items } = await keys.list().page();
      return items.slice(0, limit).map(({ id, name, role = '', createdAt: at, revokedAt }) => ({
        id,
        at,
        text: `${name}  ${role}${revokedAt === undefined ? '' : '  revoked'}`,
      }));
    },
  },
  webhook: {
    listed: 'webhooks list',
    async recent({ webhooks }, limit) {
      const { items } = await webhooks.list({ limit }).page();
      return items.map(({ id, createdAt: at, url }) => ({ id, at, text: url }));
    },
  },
  snapshot: {},
  invocation: {},
};
