/** Arguments that a person has changed, and grants that end by themselves. */
export const approvalTables: readonly string[] = [
  'ALTER TABLE approvals ADD COLUMN executed_params TEXT',
  'ALTER TABLE approvals ADD COLUMN executed_digest TEXT',
  'ALTER TABLE approvals ADD COLUMN question TEXT',
  'ALTER TABLE grants ADD COLUMN expires_at BIGINT',
  'ALTER TABLE grants ADD COLUMN uses BIGINT',
  'ALTER TABLE grants ADD COLUMN uses_left BIGINT',
  'ALTER TABLE grants ADD COLUMN revoked_at BIGINT',
  'CREATE INDEX grants_of_tenant ON grants (tenant_id, created_at, id)',
];
