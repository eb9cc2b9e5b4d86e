/** A tool that spawns sub-agents as each test defines. */
import type { AgentReport, ToolContext, ToolOutput } from '@relay/core';
import { createRecordingTool, type RecordingTool, toolCall } from '@relay/core/testing';

type Work = (context: ToolContext) => Promise<ToolOutput> | ToolOutput;

export function createSpawningTool(
  work: Work,
  options: { idempotent?: boolean } = {},
): RecordingTool {
  return createRecordingTool({
    name: 'team',
    allowedByDefault: true,
    ...options,
    execute: (_input, context) => work(context),
  });
}

export const teamCall = toolCall('call_1', 'team', {});

export function outputs(reports: readonly AgentReport[]): ToolOutput {
  return { context: reports.map(({ output }) => output).join(' ') };
}
