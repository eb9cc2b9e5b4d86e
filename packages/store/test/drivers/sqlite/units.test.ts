import { constants, DatabaseSync } from 'node:sqlite';
import { describe, expect, test } from 'vitest';
import type { Statement } from '../../../src/drivers/driver.ts';
import { BatchRunner, PreparedStatements } from '../../../src/drivers/sqlite/units.ts';

class RecordingStatements extends PreparedStatements {
  readonly executed: string[] = [];

  override get(sql: string) {
    this.executed.push(sql.split(' ')[0] ?? '');
    return super.get(sql);
  }
}

function open() {
  const db = new DatabaseSync(':memory:');
  db.exec('CREATE TABLE things (id INTEGER PRIMARY KEY)');
  const statements = new RecordingStatements(db);
  const batches = new BatchRunner(db, statements);
  return {
    /** Per unit: whether it is stored. */
    run: (...units: Statement[][]) =>
      batches.run(units).outcomes.map((outcome) => 'ok' in outcome && outcome.ok),
    executed: statements.executed,
    ids: () =>
      db
        .prepare('SELECT id FROM things ORDER BY id')
        .all()
        .map(({ id }) => id),
  };
}

const insert = (id: number): Statement => ({ sql: 'INSERT INTO things VALUES (?)', params: [id] });
const unmet: Statement = { sql: 'DELETE FROM things WHERE id = 99', params: [], expect: 1 };

describe('a batch', () => {
  test('whose units are all stored takes their statements, BEGIN and COMMIT', () => {
    const { run, executed, ids } = open();
    expect(run([insert(1), insert(2)], [insert(3)])).toEqual([true, true]);
    expect(executed).toEqual(['BEGIN', 'INSERT', 'INSERT', 'INSERT', 'COMMIT']);
    expect(ids()).toEqual([1, 2, 3]);
  });

  test.each([
    ['expectation', unmet],
    ['constraint', insert(1)],
  ])('needs no savepoint if a unit fails at its first statement, by its %s', (_, failing) => {
    const { run, executed, ids } = open();
    expect(run([insert(1)], [failing, insert(2)], [insert(3)])).toEqual([true, false, true]);
    expect(executed).not.toContain('SAVEPOINT');
    expect(executed.filter((command) => command === 'BEGIN')).toHaveLength(1);
    expect(ids()).toEqual([1, 3]);
  });

  test.each([
    ['expectation', unmet],
    ['constraint', insert(1)],
  ])('is repeated with savepoints if a unit fails later, by its %s', (_, failing) => {
    const { run, executed, ids } = open();
    expect(run([insert(1)], [insert(2), failing], [insert(3)])).toEqual([true, false, true]);
    expect(executed.filter((command) => command === 'SAVEPOINT')).toHaveLength(3);
    expect(ids()).toEqual([1, 3]);
  });

  test('of one unit that fails is rolled back, and not repeated', () => {
    const { run, executed, ids } = open();
    expect(run([insert(1), unmet])).toEqual([false]);
    expect(executed).toEqual(['BEGIN', 'INSERT', 'DELETE', 'ROLLBACK']);
    expect(ids()).toEqual([]);
  });
});

describe('a prepared statement', () => {
  test.each([
    ['LIMIT', 'SELECT id FROM things ORDER BY id LIMIT ?', 1],
    ['LIKE', 'SELECT id FROM things WHERE id LIKE ?', '1'],
  ])('is planned only once although it has a parameter of %s', (_, sql, param) => {
    const db = new DatabaseSync(':memory:');
    db.exec('CREATE TABLE things (id INTEGER PRIMARY KEY); INSERT INTO things VALUES (1), (2)');
    const statements = new PreparedStatements(db);
    let planned = 0;
    // SQLite asks for permission when it plans a statement.
    db.setAuthorizer(() => {
      planned += 1;
      return constants.SQLITE_OK;
    });
    expect(statements.all(sql, [param])).toEqual([{ id: 1 }]);
    const before = planned;
    expect(statements.all(sql, [param])).toEqual([{ id: 1 }]);
    expect(planned).toBe(before);
  });
});
