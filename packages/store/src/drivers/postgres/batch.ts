/**
 * Several units in one transaction. All are sent at once, each behind a savepoint of its own. Where
 * one does not hold, the transaction goes back to that one's savepoint, which undoes what came behind
 * it as well, and what came behind is sent again: one at a time at first, then ever more. So a batch
 * in which all holds costs two round trips, and one in which nothing does costs one for each unit.
 *
 * Units may be for different tenants. The bounds of each are set in front of its savepoint, so that going
 * back to it leaves them as they were.
 *
 * Nothing is stored before COMMIT is sent. Whatever is thrown by `apply` is therefore safe to repeat.
 */
import type { Statement, StatementResult, UnitResult } from '../driver.ts';
import { type Binding, crossing } from './bounds.ts';
import { isFaultOfStatement } from './errors.ts';
import type { PostgresSession } from './session.ts';

type Unit = readonly Statement[];

/** A unit, and whom it is for. */
export interface BoundUnit {
  readonly unit: Unit;
  readonly binding: Binding | undefined;
}

/** What has become of a unit: its answer, or the error that is its own fault. */
export type UnitOutcome = UnitResult | { readonly error: unknown };

/** Throws what is not the fault of a single unit. The transaction is open afterwards. */
export async function apply(
  session: PostgresSession,
  units: readonly BoundUnit[],
): Promise<UnitOutcome[]> {
  const outcomes: UnitOutcome[] = [];
  let bound = units[0]?.binding;
  const begun = session.command(`BEGIN;${crossing(undefined, bound, 'LOCAL')}`);
  begun.catch(() => undefined);
  for (let width = units.length; outcomes.length < units.length; width *= 2) {
    const from = outcomes.length;
    const sent = units.slice(from, from + width).map(({ unit, binding }, n) => {
      const bounds = crossing(bound, binding, 'LOCAL');
      bound = binding;
      if (units.length > 1) void save(session, `${bounds}SAVEPOINT unit_${from + n}`);
      return send(session, unit);
    });
    const answers = await Promise.all(sent);
    await begun;
    for (const answer of answers) {
      const outcome = outcomeOf(answer);
      outcomes.push(outcome);
      if (isStored(outcome)) continue;
      // One that is alone goes with its transaction.
      if (units.length === 1) break;
      const failed = outcomes.length - 1;
      await session.command(`ROLLBACK TO SAVEPOINT unit_${failed}`);
      bound = units[failed]?.binding;
      width = 0.5;
      break;
    }
  }
  return outcomes;
}

export function isStored(outcome: UnitOutcome): boolean {
  return 'ok' in outcome && outcome.ok;
}

interface Answer {
  readonly unit: Unit;
  readonly replies: readonly PromiseSettledResult<StatementResult>[];
}

/** Never rejects: if there is no savepoint, nothing that follows is answered well either. */
function save(session: PostgresSession, text: string): Promise<unknown> {
  return session.command(text).catch(() => undefined);
}

/** Never rejects. */
async function send(session: PostgresSession, unit: Unit): Promise<Answer> {
  const replies = unit.map(({ sql, params }) => session.query(sql, params));
  return { unit, replies: await Promise.allSettled(replies) };
}

function outcomeOf({ unit, replies }: Answer): UnitOutcome {
  const results: StatementResult[] = [];
  for (const [index, reply] of replies.entries()) {
    if (reply.status === 'rejected') {
      if (isFaultOfStatement(reply.reason)) return { error: reply.reason };
      throw reply.reason;
    }
    const expected = unit[index]?.expect;
    if (expected !== undefined && reply.value.changes !== expected) {
      return { ok: false, failedAt: index };
    }
    results.push(reply.value);
  }
  return { ok: true, results };
}
