import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../../../../../test/support/postgres.ts';
import { openPostgresStore, readPostgresMetadata } from '../../../src/index.ts';

describe('a PostgreSQL database that this Relay cannot use', () => {
  let database: TestDatabase;
  beforeEach(async () => {
    database = await createDatabase();
  });
  afterEach(() => database.drop());

  test('is refused in one line that names it and what it lacks, also for `relay doctor`', async () => {
    const store = await openPostgresStore({ url: database.url });
    await store.close();
    await database.sql('DROP TABLE metadata');
    await expect(openPostgresStore({ url: database.url })).rejects.toThrow(
      /^The database 127\.0\.0\.1:\d+\/\w+ cannot be used: The database has schema version 2, but no table metadata\. It was created by another version/,
    );
    await expect(readPostgresMetadata(database.url, 'vault-check')).rejects.toThrow(
      /no table metadata/,
    );
  });

  test('is refused if its role has no rights on the schema, with what to grant', async () => {
    const role = `reader_${Date.now()}`;
    await database.sql(`CREATE ROLE ${role} LOGIN PASSWORD 'x'`);
    const url = new URL(database.url);
    url.username = role;
    url.password = 'x';
    try {
      const refused = openPostgresStore({ url: url.href });
      await expect(refused).rejects.toThrow(/cannot be used: PostgreSQL: permission denied/);
      await expect(refused).rejects.toThrow(/Check the rights of the role/);
    } finally {
      await database.sql(`DROP ROLE ${role}`);
    }
  });
});
