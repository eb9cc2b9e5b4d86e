/** Operations on an installation from outside. They do not load the HTTP server. */
export {
  type Backup,
  type BackupManifest,
  makeBackup,
  restoreBackup,
  type Restored,
  verifyBackup,
} from './backup.ts';
export { type ExportVerdict, verifyExport } from '../audit/export.ts';
export { type Inspection, inspectStore } from './inspect.ts';
export type { Installation } from '../config/config.ts';
export { settingsOf } from '../config/env-file.ts';
export {
  type ListedModel,
  listKnownModels,
  type ModelChange,
  updateModelTable,
} from '../config/model-table.ts';
export { checkConfigFile, type ConfigCheck } from './check-config.ts';
export { type Rotation, rotateMasterKey } from './rotate.ts';
export { makeTenantKey, revokeTenantKey } from './tenant-key.ts';
