import { expect, it } from 'vitest';
import type { RunEvent } from '../../src/events/catalogue.ts';
import { header, placed } from './fixture-journal.ts';
import { dialects } from '../../src/dialects/index.ts';

const schema = { type: 'string' };
const asked: RunEvent = {
  type: 'approval.requested',
  agentId: '01963a5c-7892-7abc-8ef0-123456789abc',
  approvalId: '01963a5c-7893-7abc-8ef0-123456789abc',
  toolCallId: 'call_1',
  kind: 'question',
  tool: 'order',
  params: { what: 'shirt' },
  digest: 'd',
  question: { nth: 1, prompt: 'Which size?', schema },
  agentPath: ['assistant'],
  expiresAt: '2026-03-02T10:00:00.000Z',
};

it.each(Object.values(dialects).map((dialect) => [dialect.name, dialect] as const))(
  'the dialect %s shows what a tool asks and what shape the answer has',
  (_name, dialect) => {
    expect(dialect.project(placed(asked), header)).toMatchObject({
      kind: 'question',
      toolCallId: 'call_1',
      prompt: 'Which size?',
      schema,
    });
  },
);
