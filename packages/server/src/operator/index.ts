/** What an operator does to an installation from outside, without its HTTP server being loaded. */
export { type Backup, type BackupManifest, makeBackup } from './backup.ts';
export { type Inspection, inspectStore } from './inspect.ts';
export type { Place } from './place.ts';
export { restoreBackup, type Restored } from './restore.ts';
export { type Rotation, rotateMasterKey } from './rotate.ts';
export { makeTenantKey } from './tenant-key.ts';
export { verifyBackup } from './verify-backup.ts';
