import type { Log } from '@relay/core';
import { isProgram, killOrphanProcesses, type McpServerConfig } from '@relay/tools';

/**
 * Kills the commands and MCP programs that a killed server left running. Runs before anything else
 * starts: an approver who is asked about their outcome must know that they have ended, and no program
 * may run twice.
 */
export async function killOrphans(
  mcpServers: Readonly<Record<string, McpServerConfig>>,
  hasBash: boolean,
  log: Log,
): Promise<void> {
  const hasPrograms = Object.values(mcpServers).some(isProgram);
  if (!hasBash && !hasPrograms) return;
  const ended = await killOrphanProcesses();
  if (ended > 0) log.warn('Killed orphaned processes of an earlier server', { ended });
}
