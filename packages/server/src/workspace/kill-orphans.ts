import { isProgram, killOrphanProcesses } from '@relay/tools';
import type { RelayConfig } from '../config/config-file.ts';
import type { ServerLog } from '../observability/log.ts';

export interface Runner {
  readonly file: RelayConfig;
  readonly hasBash: boolean;
  readonly log: ServerLog;
}

/**
 * Kills the commands and MCP programs of a server that was itself killed. It runs before anything
 * else starts, so that an approver who is asked about their outcome can tell that they are over, and
 * no program runs twice.
 */
export async function killOrphans({ file, hasBash, log }: Runner): Promise<void> {
  const hasPrograms = Object.values(file.mcpServers ?? {}).some(isProgram);
  if (!hasBash && !hasPrograms) return;
  const ended = await killOrphanProcesses();
  if (ended > 0) log.warn('Ended what a killed server had left running', { ended });
}
