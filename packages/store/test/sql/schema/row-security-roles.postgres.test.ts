/** Where the role of tenants comes from, on a server of its own; and what older nodes notice of it. */
import { uuidv7 } from 'uuidv7';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createOwner, type TestLogin } from '../../../../../test/support/postgres-logins.ts';
import {
  startPostgres,
  type RunningPostgres,
} from '../../../../../test/support/postgres-server.ts';
import { createDatabase, type TestDatabase } from '../../../../../test/support/postgres.ts';
import { newRun, step } from '../../contract/fixtures.ts';
import type { SqlDriver } from '../../../src/drivers/driver.ts';
import { openPostgresDriver } from '../../../src/drivers/postgres/driver.ts';
import { openPostgresStore } from '../../../src/index.ts';
import { migrate } from '../../../src/sql/schema/migrations.ts';
import { tenantTables } from '../../../src/sql/schema/row-security.ts';
import { createSqlStore } from '../../../src/store.ts';

let postgres: RunningPostgres;
let database: TestDatabase;
let login: TestLogin | undefined;
const opened: { close(): Promise<void> }[] = [];

beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());
beforeEach(async () => {
  database = await createDatabase(postgres.url);
});
afterEach(async () => {
  await Promise.all(opened.splice(0).map((each) => each.close()));
  await database.sql('DROP OWNED BY relay_tenant').catch(() => undefined);
  await login?.drop();
  login = undefined;
  await database.sql('DROP ROLE IF EXISTS relay_tenant');
  await database.drop();
});

async function openStore(url: string, advise?: (line: string) => void) {
  const store = await openPostgresStore({ url, ...(advise === undefined ? {} : { advise }) });
  opened.push(store);
  return store;
}

async function openDriver(url: string): Promise<SqlDriver> {
  const driver = await openPostgresDriver({ url });
  opened.push(driver);
  return driver;
}

const roles = () => database.sql(`SELECT rolname FROM pg_roles WHERE rolname = 'relay_tenant'`);

describe('the role of tenants', () => {
  test('is made by a superuser, and once by eight that start together', async () => {
    const stores = await Promise.all(Array.from({ length: 8 }, () => openStore(database.url)));
    expect(await roles()).toHaveLength(1);
    for (const store of stores) await newRun(store.tenant(uuidv7()));
  });

  test('is made by an owner who may make roles, and once by four that start together', async () => {
    const { url } = (login = await createOwner(database, 'CREATEROLE'));
    const lines: string[] = [];
    const stores = await Promise.all(
      Array.from({ length: 4 }, () => openStore(url, (line) => lines.push(line))),
    );
    expect(lines).toEqual([]);
    expect(await roles()).toHaveLength(1);
    for (const store of stores) await newRun(store.tenant(uuidv7()));
  });

  test('is requested in one line of advice if the owner may not create it, and tenants are isolated by the setting', async () => {
    const { url, name } = (login = await createOwner(database));
    const lines: string[] = [];
    const store = await openStore(url, (line) => lines.push(line));
    expect(lines).toEqual([
      expect.stringContaining(
        `CREATE ROLE relay_tenant NOLOGIN NOINHERIT; GRANT relay_tenant TO ${name};`,
      ),
    ]);
    const [a, b] = [store.tenant(uuidv7()), store.tenant(uuidv7())];
    const run = await newRun(a);
    expect(await b.readRun(run.id)).toBeUndefined();
    const access = (await openDriver(url)).tenant?.(b.tenantId);
    expect(await access?.read('SELECT * FROM runs', [])).toEqual([]);

    // What the line says is enough.
    await database.sql(`CREATE ROLE relay_tenant NOLOGIN NOINHERIT; GRANT relay_tenant TO ${name}`);
    const again = await openStore(url, (line) => lines.push(line));
    expect(lines).toHaveLength(1);
    expect(await again.tenant(a.tenantId).readRun(run.id)).toMatchObject({ id: run.id });
    // And who has not been restarted goes on.
    expect(await a.append(step(run))).toBe('committed');

    // Taken away again, the setting alone has to hold.
    await database.sql('DROP OWNED BY relay_tenant; DROP ROLE relay_tenant');
    await openStore(url, (line) => lines.push(line));
    expect(lines).toHaveLength(2);
    const alone = (await openDriver(url)).tenant?.(b.tenantId);
    expect(await alone?.read('SELECT * FROM runs', [])).toEqual([]);
  });

  test.each([
    'ALTER ROLE relay_tenant BYPASSRLS',
    'ALTER ROLE relay_tenant SUPERUSER',
    'GRANT OWNER TO relay_tenant',
  ])('that sees everything is refused: %s', async (change) => {
    const { url, name } = (login = await createOwner(database));
    await database.sql('CREATE ROLE relay_tenant NOLOGIN');
    await database.sql(change.replace('OWNER', name));
    await expect(openStore(url)).rejects.toMatchObject({
      message: expect.stringMatching(/The role relay_tenant can see the rows of all tenants/),
    });
  });

  test('finds tables in a schema that bears the name of their owner', async () => {
    const { url, name } = (login = await createOwner(database));
    await database.sql(`CREATE ROLE relay_tenant NOLOGIN; GRANT relay_tenant TO ${name}`);
    await database.sql(`CREATE SCHEMA ${name} AUTHORIZATION ${name}`);
    const tenant = (await openStore(url)).tenant(uuidv7());
    const run = await newRun(tenant);
    expect(await tenant.readRun(run.id)).toMatchObject({ id: run.id });
    const found = await database.sql(`SELECT schemaname FROM pg_tables WHERE tablename = 'runs'`);
    expect(found).toEqual([{ schemaname: name }]);
  });
});

describe('a rolling upgrade', () => {
  /** A Relay without policies: the same statements under its own role. */
  const previous = (driver: SqlDriver): SqlDriver => ({
    dialect: driver.dialect,
    read: (sql, params) => driver.read(sql, params),
    transact: (unit, of) => driver.transact(unit, of),
    close: () => driver.close(),
  });
  const unprotected = tenantTables.map(
    ({ name }) => `ALTER TABLE ${name} NO FORCE ROW LEVEL SECURITY;
      ALTER TABLE ${name} DISABLE ROW LEVEL SECURITY;
      DROP POLICY IF EXISTS rows_of_tenant ON ${name};
      DROP POLICY IF EXISTS rows_of_system ON ${name}`,
  );

  test.each(['', 'CREATEROLE', 'SUPERUSER'])(
    'nodes of the version before go on while tables are protected (owner %s)',
    async (attributes) => {
      const { url } = (login = await createOwner(database, attributes));
      await migrate(await openDriver(url));
      await database.sql(unprotected.join(';'));
      const older = createSqlStore(previous(await openDriver(url)));
      const tenant = older.tenant(uuidv7());
      const runs = await Promise.all(Array.from({ length: 8 }, () => newRun(tenant)));
      const over = new AbortController();
      const working = runs.map(async (run) => {
        let afterSeq = 1;
        for (; !over.signal.aborted || afterSeq < 5; afterSeq += 1) {
          expect(await tenant.append(step(run, { afterSeq }))).toBe('committed');
          expect(await tenant.readRun(run.id)).toMatchObject({ lastSeq: afterSeq + 1 });
        }
        return afterSeq;
      });
      const newer = await openStore(url);
      over.abort();
      await Promise.all(working);
      const [run] = runs;
      const mine = newer.tenant(tenant.tenantId);
      expect((await mine.listRuns({}, { limit: 20 })).items).toHaveLength(8);
      const made = await newRun(mine);
      expect(await tenant.readRun(made.id)).toMatchObject({ id: made.id });
      expect(await newer.tenant(uuidv7()).readRun(run?.id ?? '')).toBeUndefined();
    },
  );
});
