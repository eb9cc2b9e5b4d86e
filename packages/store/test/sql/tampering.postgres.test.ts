import { describe } from 'vitest';
import { createDatabase } from '../../../../test/support/postgres.ts';
import { openPostgresStore } from '../../src/index.ts';
import { tamperingTests } from './tampering.ts';

describe('tampering with a PostgreSQL database as its superuser', () =>
  tamperingTests(async () => {
    const database = await createDatabase();
    return {
      open: (rows) => openPostgresStore({ url: database.url, rows }),
      sql: (text) => database.sql(text),
      dispose: () => database.drop(),
    };
  }));
