/**
 * Several units in one transaction, sent at once, each after a savepoint. If a unit fails, the
 * transaction rolls back to its savepoint and the later units are sent again: one at first, then twice
 * as many each time. A batch without failures costs two round trips, and one in which every unit fails
 * costs one per unit.
 *
 * Units may belong to different tenants. The tenant of each is set before its savepoint, so that a
 * rollback keeps it.
 *
 * Nothing is stored before COMMIT, so it is safe to repeat a batch for which `apply` throws.
 */
import type { Statement, StatementResult, UnitResult } from '../driver.ts';
import { type Binding, switchTenantSql } from './tenant-isolation.ts';
import { isFaultOfStatement } from './errors.ts';
import type { PostgresSession } from './session.ts';

type Unit = readonly Statement[];

export interface BoundUnit {
  readonly unit: Unit;
  readonly binding: Binding | undefined;
}

/** The result of a unit, or the error that its own statement caused. */
export type UnitOutcome = UnitResult | { readonly error: unknown };

/** Throws errors that no single unit caused. Leaves the transaction open. */
export async function apply(
  session: PostgresSession,
  units: readonly BoundUnit[],
): Promise<UnitOutcome[]> {
  const outcomes: UnitOutcome[] = [];
  let current = units[0]?.binding;
  const begun = session.command(`BEGIN;${switchTenantSql(undefined, current, 'LOCAL')}`);
  begun.catch(() => undefined);
  for (let width = units.length; outcomes.length < units.length; width *= 2) {
    const from = outcomes.length;
    const sent = units.slice(from, from + width).map(({ unit, binding }, n) => {
      const switching = switchTenantSql(current, binding, 'LOCAL');
      current = binding;
      if (units.length > 1) void save(session, `${switching}SAVEPOINT unit_${from + n}`);
      return send(session, unit);
    });
    const answers = await Promise.all(sent);
    await begun;
    for (const answer of answers) {
      const outcome = outcomeOf(answer);
      outcomes.push(outcome);
      if (isStored(outcome)) continue;
      // A single unit is undone with its transaction.
      if (units.length === 1) break;
      const failed = outcomes.length - 1;
      await session.command(`ROLLBACK TO SAVEPOINT unit_${failed}`);
      current = units[failed]?.binding;
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

/** Never rejects: without the savepoint, the statements after it fail too. */
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
