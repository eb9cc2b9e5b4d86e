/**
 * Who writes, as PostgreSQL sees it: triggers of the chaos tests record which node took which epoch of a
 * run, and which node added to its journal. A write by a node that was fenced out cannot hide.
 */
import type { RestartablePostgres } from './postgres.ts';

const statements = [
  `CREATE TABLE chaos_claims (run_id TEXT, epoch BIGINT, node TEXT)`,
  `CREATE TABLE chaos_writes (run_id TEXT, seq BIGINT, epoch BIGINT, node TEXT)`,
  `CREATE INDEX chaos_claims_of ON chaos_claims (run_id, epoch)`,
  `CREATE FUNCTION chaos_claim() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
    IF TG_OP = 'INSERT' OR NEW.epoch <> OLD.epoch THEN
      INSERT INTO chaos_claims VALUES (NEW.id, NEW.epoch, current_setting('application_name'));
    END IF;
    RETURN NULL; END $$`,
  `CREATE FUNCTION chaos_write() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
    INSERT INTO chaos_writes SELECT NEW.run_id, NEW.last_seq, r.epoch,
      current_setting('application_name') FROM runs r WHERE r.id = NEW.run_id;
    RETURN NULL; END $$`,
  `CREATE TRIGGER chaos_claimed AFTER INSERT OR UPDATE ON runs
    FOR EACH ROW EXECUTE FUNCTION chaos_claim()`,
  `CREATE TRIGGER chaos_wrote AFTER INSERT ON events
    FOR EACH ROW EXECUTE FUNCTION chaos_write()`,
];

export async function installAudit(postgres: RestartablePostgres): Promise<void> {
  for (const statement of statements) await postgres.sql(statement);
}

export async function strangeWrites(postgres: RestartablePostgres): Promise<string[]> {
  const rows = await postgres.sql(`SELECT w.* FROM chaos_writes w WHERE NOT EXISTS (
    SELECT 1 FROM chaos_claims c
    WHERE c.run_id = w.run_id AND c.epoch = w.epoch AND c.node = w.node)`);
  return rows.map((row) => `a write of a node that did not hold the run: ${JSON.stringify(row)}`);
}

/** How much was seen: an audit that saw nothing shows nothing. */
export async function auditedWrites(postgres: RestartablePostgres): Promise<number> {
  const [row] = await postgres.sql('SELECT COUNT(*)::int AS count FROM chaos_writes');
  return Number(row?.['count']);
}
