/** What a killed server has left running, and who may have left something. */
import { isProgram, killOrphanProcesses } from '@relay/tools';
import type { RelayConfig } from '../config/config-file.ts';
import type { ServerLog } from '../observability/log.ts';

export interface Runner {
  readonly file: RelayConfig;
  readonly hasBash: boolean;
  readonly log: ServerLog;
}

/**
 * The commands and MCP programs of a server that was killed go on without it. They are ended before
 * anything else runs, so that whoever is asked about their outcome can tell that they are over, and
 * no program has a twin.
 */
export async function killOrphans({ file, hasBash, log }: Runner): Promise<void> {
  const hasPrograms = Object.values(file.mcpServers ?? {}).some(isProgram);
  if (!hasBash && !hasPrograms) return;
  const ended = await killOrphanProcesses();
  if (ended > 0) log.warn('Ended what a killed server had left running', { ended });
}
