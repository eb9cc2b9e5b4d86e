/** Roles to log in by, for what depends on who Relay is in its database. */
import { randomUUID } from 'node:crypto';
import type { TestDatabase } from './postgres.ts';

export interface TestLogin {
  readonly name: string;
  readonly url: string;
  drop(): Promise<void>;
}

/** The owner of the database, who may do nothing else, but for what `attributes` say. */
export async function createOwner(database: TestDatabase, attributes = ''): Promise<TestLogin> {
  const name = `owner_${randomUUID().replaceAll('-', '')}`;
  const url = new URL(database.url);
  await database.sql(`CREATE ROLE ${name} LOGIN PASSWORD 'relay' ${attributes}`);
  await database.sql(`ALTER DATABASE ${url.pathname.slice(1)} OWNER TO ${name}`);
  url.username = name;
  url.password = 'relay';
  return {
    name,
    url: url.href,
    drop: async () => {
      await database.sql(`DROP OWNED BY ${name} CASCADE`);
      await database.sql(`ALTER DATABASE ${url.pathname.slice(1)} OWNER TO CURRENT_USER`);
      await database.sql(`DROP ROLE ${name}`);
    },
  };
}
