import { describe, expect, test } from 'vitest';
import { createAgentHarness, createDeterministicHarness } from '../src/index.ts';
import {
  bash,
  messages,
  only,
  outputsOf,
  readAll,
  says,
  shell,
  turns,
} from './support/fixtures.ts';

const schema = { type: 'object', properties: { sure: { type: 'boolean' } }, required: ['sure'] };

function agentThatAsks() {
  const { tool, ran } = shell(async (_command, context) => ({
    result: await context.ask({ prompt: 'Are you sure?', schema }),
  }));
  const harness = createDeterministicHarness(turns([bash('tc-1', 'rm x')], [says('Done')]), {
    relayTimeoutMs: Infinity,
  });
  const stream = createAgentHarness({ harness }).invoke({
    messages,
    tools: [tool],
    permissions: { allowlist: [{ tool: 'bash' }] },
  });
  return { stream, ran };
}

describe('a question of a tool', () => {
  test('is a relay whose answer is passed to the tool', async () => {
    const { stream, ran } = agentThatAsks();
    const events = await readAll(stream, { approved: true, input: { sure: true } });
    expect(only(events, 'relay')).toMatchObject([
      { kind: 'question', toolCallId: 'tc-1', prompt: 'Are you sure?', schema },
    ]);
    expect(outputsOf(events)).toMatchObject({ 'tc-1': { result: { sure: true } } });
    expect(ran).toEqual(['rm x']);
  });

  test('can be declined', async () => {
    const events = await readAll(agentThatAsks().stream, { approved: false, reason: 'No' });
    expect(outputsOf(events)).toMatchObject({ 'tc-1': { status: 'error', error: 'No' } });
  });

  test('rejects an answer that does not match the schema, and stays open', async () => {
    const wrong: unknown[] = [undefined, 'yes', {}, { sure: 'yes' }];
    const events = await readAll(agentThatAsks().stream, (relay) => {
      for (const input of wrong) {
        expect(() => relay.respond({ approved: true, input })).toThrow(/input/);
      }
      const always = { approved: true, always: true, input: { sure: true } };
      expect(() => relay.respond(always)).toThrow(/always/);
      return { approved: true, input: { sure: false } };
    });
    expect(outputsOf(events)).toMatchObject({ 'tc-1': { result: { sure: false } } });
  });
});
