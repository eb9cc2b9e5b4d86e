import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe } from 'vitest';
import { openSqliteStore } from '../../src/index.ts';
import { tamperingTests } from './tampering.ts';

describe('tampering with a SQLite file', () =>
  tamperingTests(async () => {
    const dir = mkdtempSync(join(tmpdir(), 'relay-tampering-'));
    return {
      open: (rows) => openSqliteStore({ dir, rows }),
      sql: async (text) => {
        const db = new DatabaseSync(join(dir, 'relay.db'));
        try {
          return db.prepare(text).all();
        } finally {
          db.close();
        }
      },
      dispose: async () => rmSync(dir, { recursive: true, force: true }),
    };
  }));
