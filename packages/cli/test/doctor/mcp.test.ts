import { expect, it } from 'vitest';
import { mcpFindings } from '../../src/doctor/key.ts';

it('reports MCP servers that are not connected, and names that mean no tool', () => {
  const findings = mcpFindings([
    { name: 'shop', connected: true, tools: 1, warnings: ['The agent clerk names the tool x'] },
    { name: 'files', connected: false, problem: 'No answer', tools: 0, warnings: [] },
  ]);
  expect([...findings]).toMatchObject([
    { state: 'ok', message: 'shop (1 tool)' },
    { state: 'warning', message: 'The agent clerk names the tool x' },
    { state: 'wrong', message: 'files is not connected: No answer' },
  ]);
});
