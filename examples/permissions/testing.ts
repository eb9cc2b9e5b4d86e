/**
 * Test permissions without a model: npx node examples/permissions/testing.ts
 *
 * The relay gets no response. With this harness it expires after two seconds, and the test continues.
 */
import assert from 'node:assert';
import { createAgentHarness, createDeterministicHarness } from 'relay-kit/library';
import { bashTool } from './shell.ts';

const mockProvider = createDeterministicHarness([
  { type: 'tool_call', id: 'tc-1', name: 'bash', input: { command: 'rm -rf /' } },
]);

const agent = createAgentHarness({ harness: mockProvider });
const messages = [{ role: 'user', content: 'Clean up' }];

const events = [];
for await (const event of agent.invoke({
  messages,
  tools: [bashTool],
  permissions: { allowlist: [{ tool: 'bash', params: { command: 'ls*' } }] },
})) {
  events.push(event);
}

// Assert relay event was yielded
assert(events.some((e) => e.type === 'relay'));
console.log('A relay was yielded, and nothing ran');
