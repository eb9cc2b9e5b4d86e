/**
 * Budgets. A run reserves tokens and dollars in the commit that creates it, and more before a model
 * call for which that is not enough. A model call is bounded by what is reserved, so that the runs of
 * a tenant cannot use more than its budget together, on however many nodes. The store adds up what
 * ended runs have used and what open runs have used or reserved; so nothing has to be given back when
 * a run ends, is suspended or is recovered after a crash.
 *
 * Input is estimated (`tokens.ts`): the difference to what the provider counts can exceed a budget.
 */
import { type Budget, type Message, RelayError, type Usage } from '@relay/protocol';
import type { Engine } from '../engine.ts';
import type {
  ModelRequest,
  OverBudget,
  Price,
  Reserved,
  RunBudget,
  SessionRecord,
  TenantStore,
} from '../ports/index.ts';
import { tokensIn, tokensOfRequest } from '../run/context/tokens.ts';
import type { RunState } from '../run/state/state.ts';

/** The part of a budget that a run reserves at once. */
const share = 1 / 20;
const leastTokens = 4_096;
/** The most that a call may answer: no current model refuses a limit of this size as too large. */
const maxAnswerTokens = 16_384;
/** Runs that reserve at the same moment can take what another one has just read as left. */
const attempts = 20;

/** No id: all runs count. */
const noRun = '';

const nothing: Reserved = { tokens: 0, costUsd: 0 };

function isMetered({ tokens, costUsd }: Pick<RunBudget, 'tokens' | 'costUsd'>): boolean {
  return tokens !== undefined || costUsd !== undefined;
}

/** What a run reserves at once under these budgets. */
function pieceOf(budgets: readonly RunBudget[]): Reserved {
  const least = (amounts: readonly (number | undefined)[]) =>
    Math.min(...amounts.filter((amount) => amount !== undefined));
  const tokens = least(budgets.map((budget) => budget.tokens));
  const costUsd = least(budgets.map((budget) => budget.costUsd));
  return {
    tokens: tokens === Infinity ? 0 : Math.max(leastTokens, Math.floor(tokens * share)),
    costUsd: costUsd === Infinity ? 0 : costUsd * share,
  };
}

/**
 * Stores a reservation of at most `wanted` and at least `least`, which `store` commits. Throws
 * `budget_exceeded` if the budgets do not have that much left.
 */
async function reserve<Stored>(
  request: {
    readonly tenant: TenantStore;
    readonly budgets: readonly RunBudget[];
    readonly wanted: Reserved;
    readonly least: Reserved;
    /** The run whose reservation is replaced. */
    readonly runId: string;
    readonly now: number;
  },
  store: (reserved: Reserved) => Promise<Stored | OverBudget>,
): Promise<{ readonly stored: Stored; readonly reserved: Reserved }> {
  const { tenant, budgets, least, runId, now } = request;
  for (let attempt = 1; ; attempt += 1) {
    let { tokens, costUsd } = request.wanted;
    for (const budget of budgets.filter(isMetered)) {
      const left = await leftOf(tenant, budget, runId);
      const short = shortOf(left, least);
      if (short !== undefined) throw exceeded(budget, short, now);
      tokens = Math.min(tokens, left.tokens);
      costUsd = Math.min(costUsd, left.costUsd);
    }
    const reserved = { tokens, costUsd };
    const stored = await store(reserved);
    if (!isOverBudget(stored)) return { stored, reserved };
    if (stored.exceeded === 'concurrentRuns' || attempt === attempts) {
      throw exceeded(stored.budget, stored.exceeded, now);
    }
  }
}

/** What a budget has left for this run. */
async function leftOf(tenant: TenantStore, budget: RunBudget, runId: string): Promise<Reserved> {
  const used = await tenant.readBudgetUse(budget, runId);
  return {
    tokens: (budget.tokens ?? Infinity) - used.tokens,
    costUsd: (budget.costUsd ?? Infinity) - used.costUsd,
  };
}

function shortOf(left: Reserved, least: Reserved): 'tokens' | 'costUsd' | undefined {
  if (left.tokens < least.tokens) return 'tokens';
  return left.costUsd < least.costUsd || left.costUsd <= 0 ? 'costUsd' : undefined;
}

/**
 * Why a turn of a program cannot start: the budgets of the session have nothing left. A program is not bounded
 * by a reservation: what it uses counts when it reports it, so its last turn can exceed a budget.
 */
export async function exhaustedBudget(
  engine: Pick<Engine, 'store' | 'clock' | 'budgets'>,
  { tenantId, keyId }: Pick<SessionRecord, 'tenantId' | 'keyId'>,
): Promise<RelayError | undefined> {
  const budgets = (await engine.budgets?.(tenantId, keyId)) ?? [];
  for (const budget of budgets.filter(isMetered)) {
    const left = await leftOf(engine.store.tenant(tenantId), budget, noRun);
    const short = shortOf(left, { tokens: 1, costUsd: 0 });
    if (short !== undefined) return exceeded(budget, short, engine.clock.now());
  }
  return undefined;
}

function isOverBudget(outcome: unknown): outcome is OverBudget {
  return (outcome as Partial<OverBudget>).kind === 'over-budget';
}

/** Creates a run within its budgets; `create` stores it with what it has reserved. */
export async function createWithinBudgets<Created>(
  run: {
    readonly tenant: TenantStore;
    readonly budgets: readonly RunBudget[];
    readonly runId: string;
    readonly limits: {
      readonly tokens?: number | undefined;
      readonly costUsd?: number | undefined;
    };
    readonly now: number;
    /** Its first call needs at least these. */
    readonly messages: readonly Message[];
    readonly price: Price | undefined;
  },
  create: (reserved: Reserved) => Promise<Created | OverBudget>,
): Promise<{ readonly stored: Created; readonly reserved: Reserved }> {
  const piece = pieceOf(run.budgets);
  const wanted = {
    tokens: Math.min(piece.tokens, run.limits.tokens ?? Infinity),
    costUsd: Math.min(piece.costUsd, run.limits.costUsd ?? Infinity),
  };
  const least = run.budgets.some(isMetered)
    ? amountOf({ inputTokens: tokensIn(run.messages), outputTokens: 1 }, run.price)
    : nothing;
  return reserve({ ...run, wanted, least }, create);
}

/** What a reservation needs to know of its run. */
interface ReservingRun {
  readonly engine: Engine;
  readonly identity: {
    readonly id: string;
    readonly tenantId: string;
    readonly keyId: string | null;
  };
  readonly store: TenantStore;
  readonly epoch: number;
  readonly state: RunState;
}

export interface AdmittedRequest {
  readonly request: ModelRequest;
  /** The budgets have too little left for an answer of full length. */
  readonly isShortened: boolean;
  /** To be called once the usage of the call is part of the run's state. */
  readonly release: () => void;
}

/** What a run that this node drives has reserved, and how much of it its model calls may still use. */
export class Reservation {
  readonly #run: ReservingRun;
  /** Nothing after a resume or a crash: others may have reserved it meanwhile. */
  #reserved: Reserved;
  /** The most that each call can use that is under way. */
  readonly #calls = new Set<Reserved>();
  /** Agents of a run reserve one after another. */
  #previous: Promise<unknown> = Promise.resolve();

  constructor(run: ReservingRun, reserved: Reserved = nothing) {
    this.#run = run;
    this.#reserved = reserved;
  }

  /** Bounds a model call by what is reserved, and reserves more if that is too little for it. */
  async admit(request: ModelRequest): Promise<AdmittedRequest> {
    const { engine, identity } = this.#run;
    const budgets = (await engine.budgets?.(identity.tenantId, identity.keyId)) ?? [];
    const metered = budgets.filter(isMetered);
    if (metered.length === 0) {
      return { request, isShortened: false, release: () => undefined };
    }
    const admitted = this.#previous.then(() => this.#admit(request, metered));
    this.#previous = admitted.catch(() => undefined);
    return admitted;
  }

  async #admit(request: ModelRequest, budgets: readonly RunBudget[]): Promise<AdmittedRequest> {
    const { engine, identity, store, epoch, state } = this.#run;
    const price = engine.models(identity.tenantId).price?.(request.model);
    if (price === undefined && budgets.some(({ costUsd }) => costUsd !== undefined)) {
      throw new RelayError(
        'budget_exceeded',
        `There is a budget in dollars, but the model ${request.model} has no price`,
      );
    }
    const inputTokens = tokensOfRequest(request);
    const before = [...this.#calls].reduce(sum, usedBy(state.usage));
    const upTo = (outputTokens: number) =>
      sum(before, amountOf({ inputTokens, outputTokens }, price));
    const perToken = (price?.outputPerMillion ?? 0) / 1_000_000;
    const wanted = upTo(answerTokens(pieceOf(budgets), perToken));
    if (!covers(this.#reserved, wanted)) {
      const { reserved, stored } = await reserve(
        {
          tenant: store,
          budgets,
          wanted,
          least: upTo(1),
          runId: identity.id,
          now: engine.clock.now(),
        },
        (amount) => store.reserve({ runId: identity.id, epoch, reserved: amount, budgets }),
      );
      if (stored === 'fenced') {
        throw new RelayError('storage_failed', 'Another node has taken over the run');
      }
      this.#reserved = reserved;
    }
    const call = amountOf({ inputTokens, outputTokens: 0 }, price);
    const tokensLeft = this.#reserved.tokens - before.tokens - call.tokens;
    const costLeft = this.#reserved.costUsd - before.costUsd - call.costUsd;
    const hasTokens = budgets.some(({ tokens }) => tokens !== undefined);
    const hasCost = perToken > 0 && budgets.some(({ costUsd }) => costUsd !== undefined);
    const outputTokens = Math.max(
      1,
      Math.floor(
        Math.min(
          maxAnswerTokens,
          hasTokens ? tokensLeft : Infinity,
          hasCost ? costLeft / perToken : Infinity,
        ),
      ),
    );
    const amount = amountOf({ inputTokens, outputTokens }, price);
    this.#calls.add(amount);
    return {
      request: { ...request, maxOutputTokens: outputTokens },
      isShortened: outputTokens < maxAnswerTokens,
      release: () => this.#calls.delete(amount),
    };
  }
}

/** The length of the answer that a call reserves. */
function answerTokens({ tokens, costUsd }: Reserved, perToken: number): number {
  const inTokens = tokens === 0 ? Infinity : tokens;
  const inDollars = costUsd === 0 || perToken === 0 ? Infinity : costUsd / perToken;
  const affordable = Math.max(leastTokens, Math.floor(Math.min(inTokens, inDollars)));
  return Math.min(maxAnswerTokens, affordable);
}

function usedBy({ inputTokens, outputTokens, costUsd = 0 }: Usage): Reserved {
  return { tokens: inputTokens + outputTokens, costUsd };
}

function amountOf(
  { inputTokens, outputTokens }: { inputTokens: number; outputTokens: number },
  price: Price | undefined,
): Reserved {
  const { inputPerMillion = 0, outputPerMillion = 0 } = price ?? {};
  // Writing to a provider's cache costs more than input.
  const input = Math.max(inputPerMillion, price?.cacheWritePerMillion ?? 0);
  return {
    tokens: inputTokens + outputTokens,
    costUsd: (inputTokens * input + outputTokens * outputPerMillion) / 1_000_000,
  };
}

function sum(one: Reserved, other: Reserved): Reserved {
  return { tokens: one.tokens + other.tokens, costUsd: one.costUsd + other.costUsd };
}

function covers(reserved: Reserved, amount: Reserved): boolean {
  return reserved.tokens >= amount.tokens && reserved.costUsd >= amount.costUsd;
}

/** The start of the day or month, in UTC. */
export function startOf(period: Budget['period'], now: Date): number {
  const day = period === 'day' ? now.getUTCDate() : 1;
  return Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), day);
}

function endOf(period: Budget['period'], now: Date): number {
  const [year, month, day] = [now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate()];
  return period === 'day' ? Date.UTC(year, month, day + 1) : Date.UTC(year, month + 1, 1);
}

/** With `retryAfterMs` where it is known: it is not for active runs. */
function exceeded(
  { keyId, concurrentRuns, tokens, costUsd, period }: RunBudget,
  what: OverBudget['exceeded'],
  now: number,
): RelayError {
  const subject = keyId === undefined ? 'The tenant' : 'This key';
  if (what === 'concurrentRuns') {
    const message = `${subject} has reached its limit of ${concurrentRuns} concurrent runs`;
    return new RelayError('budget_exceeded', message);
  }
  const amount = what === 'tokens' ? `${tokens} tokens` : `${costUsd} US dollars`;
  return new RelayError(
    'budget_exceeded',
    `${subject} has too little left of its ${amount} for this ${period}`,
    { retryAfterMs: endOf(period, new Date(now)) - now },
  );
}
