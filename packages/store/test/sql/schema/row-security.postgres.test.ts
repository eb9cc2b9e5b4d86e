/** PostgreSQL itself keeps tenants apart, under any role of Relay and for any statement. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createOwner, type TestLogin } from '../../../../../test/support/postgres-logins.ts';
import { createDatabase, type TestDatabase } from '../../../../../test/support/postgres.ts';
import type { SqlAccess, Statement } from '../../../src/drivers/driver.ts';
import { openPostgresDriver, type PostgresDriver } from '../../../src/drivers/postgres/driver.ts';
import { newMessage } from '../../contract/sessions/fixtures.ts';
import { openPostgresStore } from '../../../src/index.ts';
import { migrate } from '../../../src/sql/schema/migrations.ts';
import { adviceOnRows } from '../../../src/sql/schema/row-security.ts';
import { tenantTables } from '../../../src/sql/schema/row-security.ts';
import { createSqlStore } from '../../../src/store.ts';

let database: TestDatabase;
let login: TestLogin | undefined;
let driver: PostgresDriver;

async function leave(): Promise<void> {
  await driver.close();
  await login?.drop();
  login = undefined;
  await database.drop();
}

function useDatabase(): void {
  beforeEach(async () => {
    database = await createDatabase();
  });
  afterEach(leave);
}

/** A table with the columns that are not its tenant's. */
async function columnsOf(): Promise<Map<string, { name: string; type: unknown }[]>> {
  const rows = await database.sql(
    `SELECT table_name AS "table", column_name AS name, data_type AS type
      FROM information_schema.columns WHERE table_schema = 'public' AND is_generated = 'NEVER'`,
  );
  const tables = Map.groupBy(rows, ({ table }) => String(table));
  return new Map(
    tenantTables.map(({ name, column }) => {
      const columns = tables.get(name)?.filter((each) => each['name'] !== column) ?? [];
      return [name, columns.map((each) => ({ name: String(each['name']), type: each['type'] }))];
    }),
  );
}

/** A row of tenant `a` and one of tenant `b` in each table, whatever columns it has. */
async function fill(): Promise<void> {
  const columns = await columnsOf();
  const inserts = tenantTables.map(({ name, column }) => {
    const others = columns.get(name) ?? [];
    const value = (type: unknown, tenant: string, n: number) =>
      type === 'text' ? `'${tenant}'` : type === 'bytea' ? `'\\x0${n}'` : n;
    const row = (tenant: string, n: number) =>
      `(${[`'${tenant}'`, ...others.map(({ type }) => value(type, tenant, n))].join()})`;
    const names = [column, ...others.map((each) => each.name)].join();
    return `INSERT INTO ${name} (${names}) VALUES ${row('a', 1)}, ${row('b', 2)}
      ON CONFLICT DO NOTHING`;
  });
  await database.sql(inserts.join(';'));
}

const ways = {
  'a superuser': async () => database.url,
  'the owner of the database, who may take on the role': async () => {
    login = await createOwner(database);
    await ensureRole();
    await database.sql(`GRANT relay_tenant TO ${login.name}`);
    return login.url;
  },
  'an owner who may make roles': async () => {
    login = await createOwner(database, 'CREATEROLE');
    await ensureRole();
    await database.sql(`GRANT relay_tenant TO ${login.name} WITH ADMIN OPTION`);
    await database.sql(`REVOKE SET OPTION FOR relay_tenant FROM ${login.name}`);
    return login.url;
  },
  'an owner without the role': async () => {
    login = await createOwner(database);
    return login.url;
  },
};

/** Roles belong to the server, which all tests share. */
async function ensureRole(): Promise<void> {
  await database.sql('CREATE ROLE relay_tenant NOLOGIN NOINHERIT').catch(() => undefined);
}

async function open(url: string): Promise<PostgresDriver> {
  driver = await openPostgresDriver({ url, writers: 1 });
  await migrate(driver);
  return driver;
}

async function idsIn(access: SqlAccess, { name, column }: { name: string; column: string }) {
  const rows = await access.read(`SELECT ${column} AS id FROM ${name} ORDER BY 1`, []);
  return rows.map(({ id }) => id);
}

const run = (access: SqlAccess, sql: string, ...params: string[]) =>
  access.transact([{ sql, params }]);
const changed = async (access: SqlAccess, sql: string) => {
  const result = await run(access, sql);
  return result.ok ? result.results[0]?.changes : undefined;
};

describe.each(Object.entries(ways))('where Relay is %s', (_name, login) => {
  beforeAll(async () => {
    database = await createDatabase();
    await open(await login());
  });
  beforeEach(async () => {
    await database.empty();
    await fill();
  });
  afterAll(leave);

  test('without a predicate a tenant reads its own rows alone, in every table', async () => {
    for (const tenant of ['a', 'b', 'a', 'nobody', "o'b\\r"]) {
      const access = driver.tenant(tenant);
      for (const table of tenantTables) {
        const own = ['a', 'b'].includes(tenant) ? [tenant] : [];
        expect([table.name, await idsIn(access, table)]).toEqual([table.name, own]);
      }
    }
    for (const table of tenantTables) expect(await idsIn(driver, table)).toEqual(['a', 'b']);
  });

  test('without a predicate it changes and deletes nothing of another, in any table', async () => {
    const access = driver.tenant('a');
    // A memory takes its vector along.
    for (const { name, column, privileges } of tenantTables.toReversed()) {
      const stranger = `UPDATE ${name} SET ${column} = ${column} WHERE ${column} = 'b'`;
      const all = `UPDATE ${name} SET ${column} = ${column}`;
      if (privileges.includes('UPDATE')) {
        expect([name, await changed(access, stranger)]).toEqual([name, 0]);
        expect([name, await changed(access, all)]).toEqual([name, 1]);
      }
      await expect(run(access, `UPDATE ${name} SET ${column} = 'b'`)).rejects.toThrow();
      if (privileges.includes('DELETE')) {
        expect([name, await changed(access, `DELETE FROM ${name}`)]).toEqual([name, 1]);
      }
    }
    for (const table of tenantTables) {
      expect([table.name, await idsIn(driver, table)]).toEqual([
        table.name,
        table.privileges.includes('DELETE') ? ['b'] : ['a', 'b'],
      ]);
    }
  });

  test('it adds nothing to another, in any table', async () => {
    const access = driver.tenant('a');
    const columns = await columnsOf();
    await database.sql(
      tenantTables.map(({ name, column }) => `DELETE FROM ${name} WHERE ${column} = 'b'`).join(';'),
    );
    for (const { name, column } of tenantTables) {
      const names = (columns.get(name) ?? []).map((each) => each.name).join();
      const copied = `INSERT INTO ${name} (${column}, ${names}) SELECT 'b', ${names} FROM ${name}`;
      await expect(run(access, copied)).rejects.toMatchObject({
        cause: { message: expect.stringMatching(/row-level security|permission denied/) },
      });
    }
  });

  test('units of several tenants and of the system that share a commit see their own rows', async () => {
    const { commits } = driver.stats;
    const mark = (n: number) => ({ sql: `UPDATE grants SET tool = ?`, params: [`${n}`] });
    const fails = { sql: `UPDATE grants SET tool = 'x'`, params: [], expect: 7 };
    const [a, b] = [driver.tenant('a'), driver.tenant('b')];
    const look = { sql: 'SELECT tenant_id FROM grants ORDER BY 1', params: [] };
    const units: [SqlAccess, readonly Statement[]][] = [
      [a, [mark(0), look]],
      [b, [mark(1), look]],
      [driver, [look]],
      [b, [fails]],
      [a, [mark(4), look]],
      [driver, [look]],
      [a, [fails]],
      [b, [mark(7), look]],
      [a, [look]],
    ];
    const results = await Promise.all(
      units.map(([access, unit], n) => access.transact(unit, { run: `${n}` })),
    );
    const seen = results.map((result) =>
      result.ok ? result.results.at(-1)?.rows.map((row) => row['tenant_id']) : 'undone',
    );
    const all = ['a', 'b'];
    expect(seen).toEqual([['a'], ['b'], all, 'undone', ['a'], all, 'undone', ['b'], ['a']]);
    expect(driver.stats.commits - commits).toBeLessThan(units.length);
    const tools = await database.sql('SELECT tool FROM grants ORDER BY tenant_id');
    expect(tools).toEqual([{ tool: '4' }, { tool: '7' }]);
  });

  test('memories are found by their words, and no others', async () => {
    const store = createSqlStore(driver);
    const [one, other] = ['one', 'other'].map((tenant) => store.tenant(tenant));
    const at = {
      createdAt: 1,
      expiresAt: null,
      runId: null,
      source: 'api',
      namespace: 'n',
    } as const;
    await one?.addMemory({ ...at, id: 'm1', text: 'the parrot is blue' });
    await other?.addMemory({ ...at, id: 'm2', text: 'the parrot is green' });
    const search = { namespace: 'n', query: 'parrot', limit: 5, now: 2 };
    expect((await one?.searchMemories(search))?.map(({ id }) => id)).toEqual(['m1']);
    expect((await other?.searchMemories(search))?.map(({ id }) => id)).toEqual(['m2']);
  });

  test('messages are found by their words, and no others', async () => {
    const store = createSqlStore(driver);
    const search = { query: 'parrot' };
    const found = async (tenant: string) =>
      (await store.tenant(tenant).messages.list(search, { limit: 9 })).items.map(({ id }) => id);
    const send = async (tenant: string) => {
      const message = newMessage({ text: 'the parrot is blue' });
      await store.tenant(tenant).sessions.change({ changes: [], messages: [message] });
      return message.id;
    };
    const [one, other] = [await send('one'), await send('other')];
    expect([await found('one'), await found('other')]).toEqual([[one], [other]]);
    expect(await found('nobody')).toEqual([]);
  });

  test('many reads of several tenants at once each see their own rows', async () => {
    const reads = Array.from({ length: 200 }, async (_, n) => {
      const tenant = ['a', 'b', undefined][n % 3];
      const access = tenant === undefined ? driver : driver.tenant(tenant);
      const rows = await access.read('SELECT tenant_id FROM runs ORDER BY 1', []);
      const own = tenant === undefined ? ['a', 'b'] : [tenant];
      expect(rows?.map((row) => row['tenant_id'])).toEqual(own);
    });
    await Promise.all(reads);
  });
});

describe('every table', () => {
  useDatabase();

  test('with rows of tenants is protected, whatever is added', async () => {
    await open(database.url);
    const found = await database.sql(
      `SELECT c.relname AS name, c.relrowsecurity AND c.relforcerowsecurity AS enforced,
          (SELECT pg_get_expr(p.polqual, c.oid) FROM pg_policy p
            WHERE p.polrelid = c.oid AND p.polname = 'rows_of_tenant' AND p.polcmd = '*') AS policy
        FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id'
        WHERE c.relkind IN ('r', 'p') AND c.relnamespace = 'public'::regnamespace`,
    );
    for (const { name, enforced, policy } of found) {
      expect([name, enforced, policy]).toEqual([
        name,
        true,
        expect.stringContaining(`tenant_id = current_setting('relay.tenant'::text, true)`),
      ]);
    }
    const listed = tenantTables.map(({ name }) => name).filter((name) => name !== 'tenants');
    expect(found.map(({ name }) => String(name)).toSorted()).toEqual(listed);
  });

  test("is used by the tenants' role only as far as the port goes, and the system's not at all", async () => {
    await open(database.url);
    const granted = await database.sql(
      `SELECT table_name AS name, string_agg(privilege_type, ' ' ORDER BY privilege_type) AS may
        FROM information_schema.role_table_grants WHERE grantee = 'relay_tenant' GROUP BY 1`,
    );
    const expected = tenantTables.map(({ name, privileges }) => ({
      name,
      may: privileges.toSorted().join(' '),
    }));
    expect(granted).toHaveLength(expected.length);
    expect(granted).toEqual(expect.arrayContaining(expected));
    const [role] = await database.sql(
      `SELECT rolsuper, rolbypassrls, rolcanlogin, rolcreaterole, rolcreatedb, rolinherit
        FROM pg_roles WHERE rolname = 'relay_tenant'`,
    );
    expect(Object.values(role ?? {})).toEqual(Array.from({ length: 6 }, () => false));
    const owned = await database.sql(
      `SELECT relname FROM pg_class WHERE relowner = 'relay_tenant'::regrole`,
    );
    expect(owned).toEqual([]);
  });

  test('gets what it lacks at the next start, and loses what is too much', async () => {
    await open(database.url);
    await database.sql('ALTER TABLE runs DISABLE ROW LEVEL SECURITY');
    await database.sql('DROP POLICY rows_of_tenant ON events');
    await database.sql('REVOKE INSERT ON run_inbox FROM relay_tenant');
    await database.sql('GRANT DELETE ON audit_entries TO relay_tenant');
    await fill();
    await migrate(driver);
    for (const table of tenantTables) {
      expect(await idsIn(driver.tenant('a'), table)).toEqual(['a']);
    }
    const may = await database.sql(
      `SELECT has_table_privilege('relay_tenant', 'run_inbox', 'INSERT') AS needed,
        has_table_privilege('relay_tenant', 'audit_entries', 'DELETE') AS excess`,
    );
    expect(may).toEqual([{ needed: true, excess: false }]);
  });
});

describe('the advice to an operator', () => {
  useDatabase();

  test('nothing, where tenants have a role', async () => {
    await open(database.url);
    expect(await adviceOnRows(driver)).toBeUndefined();
  });

  test('once at the start and in one line, what to run where they have none', async () => {
    await ensureRole();
    login = await createOwner(database);
    const lines: string[] = [];
    const advise = (line: string) => lines.push(line);
    const store = await openPostgresStore({ url: login.url, advise });
    await store.close();
    driver = await openPostgresDriver({ url: login.url });
    expect(lines).toEqual([expect.stringContaining(`GRANT relay_tenant TO ${login.name}`)]);
    expect(lines[0]).not.toContain('\n');
    await database.sql(`GRANT relay_tenant TO ${login.name}`);
    await (await openPostgresStore({ url: login.url, advise })).close();
    expect(lines).toHaveLength(1);
  });

  test('that a role which sees everything cannot go on without another', async () => {
    login = await createOwner(database, 'BYPASSRLS');
    const refused = { message: expect.stringContaining('sees the rows of all tenants') };
    await expect(openPostgresStore({ url: login.url })).rejects.toMatchObject(refused);
    driver = await openPostgresDriver({ url: login.url });
    await expect(driver.tenant('a').read('SELECT 1', [])).rejects.toMatchObject(refused);
  });
});

describe('the role', () => {
  useDatabase();

  test.each(Object.keys(ways).slice(0, 3) as (keyof typeof ways)[])(
    'words are looked up by their index where Relay is %s',
    async (way) => {
      await open(await ways[way]());
      await database.sql(`INSERT INTO memories (tenant_id, id, namespace, created_at, source, checksum,
        scope, words, text)
      SELECT 't', 'm' || n, '"n"', n, 'api', 0, 'scope', 'word' || n, '""'
      FROM generate_series(1, 20000) n; ANALYZE memories`);
      const looked = await driver
        .tenant?.('t')
        .read(`SELECT * FROM relay_search_memories(?, ?, ?, ?)`, ['scopeword77', '"n"', 1, 60]);
      expect(looked).toEqual([{ relay_search_memories: 'm77' }]);
      // A connection tells what it has done when it leaves.
      await driver.close();
      const uses = () =>
        database.sql(`SELECT i.idx_scan::int AS looked, t.seq_scan::int AS read
        FROM pg_stat_user_indexes i JOIN pg_stat_user_tables t USING (relid)
        WHERE i.indexrelname = 'memory_index'`);
      await expect.poll(uses, { timeout: 5_000 }).toMatchObject([{ looked: 1 }]);
    },
  );

  test('a role that is taken away makes reads and writes fail, and shows nothing', async () => {
    const { url } = (login = await createOwner(database));
    await ensureRole();
    await database.sql(`GRANT relay_tenant TO ${login.name}`);
    await open(url);
    await fill();
    expect(await idsIn(driver.tenant('a'), { name: 'runs', column: 'id' })).toEqual(['a']);
    await database.sql(`REVOKE relay_tenant FROM ${login.name}`);
    await driver.read('SELECT 1', []);
    const tenant = driver.tenant('b');
    const tries = Array.from({ length: 20 }, (_, n) =>
      n % 2 === 0
        ? tenant.read('SELECT * FROM runs', [])
        : run(tenant, 'UPDATE runs SET agent = agent'),
    );
    for (const tried of await Promise.allSettled(tries)) {
      expect(tried).toMatchObject({ status: 'rejected', reason: { code: 'storage_failed' } });
    }
  });
});
