/** A tool that lets sub-agents work for it, in a way that each test writes for itself. */
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

export const team = toolCall('call_1', 'team', {});

export function outputs(reports: readonly AgentReport[]): ToolOutput {
  return { context: reports.map(({ output }) => output).join(' ') };
}
