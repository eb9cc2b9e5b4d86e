import { describe, expect, test } from 'vitest';
import { postgresText } from '../../../src/drivers/postgres/session.ts';

describe('SQL for PostgreSQL', () => {
  const cases: Record<string, [sql: string, text: string]> = {
    'marks are numbered': ['SELECT ?, ? WHERE a = ?', 'SELECT $1, $2 WHERE a = $3'],
    'not inside of a string': [`SELECT '?', 'it''s ?', ?`, `SELECT '?', 'it''s ?', $1`],
    'not inside of a name': ['SELECT "a?""?", ?', 'SELECT "a?""?", $1'],
    'not behind a dash': ['SELECT ? -- what? \n, ?', 'SELECT $1 -- what? \n, $2'],
    'not in a comment': ['SELECT /* ? \n ? */ ?', 'SELECT /* ? \n ? */ $1'],
    'a quote in a comment opens nothing': [`SELECT ? -- it's\n, ?`, `SELECT $1 -- it's\n, $2`],
  };
  test.each(Object.entries(cases))('%s', (_name, [sql, text]) => {
    expect(postgresText(sql).text).toBe(text);
  });

  test('a text has one name for good, and no other has it', () => {
    const one = postgresText('SELECT 1 AS one');
    expect(postgresText('SELECT 1 AS one')).toBe(one);
    expect(postgresText('SELECT 2 AS two').name).not.toBe(one.name);
  });

  test('what defines is not prepared', () => {
    expect(postgresText('CREATE TABLE a (b TEXT)').name).toBeUndefined();
    expect(postgresText('  alter table a add column c text').name).toBeUndefined();
  });
});
