/**
 * The JSON of a row as it is stored: as text, or compressed. It repeats the names of fields and the ids
 * of its run, so that compression more than halves it. This takes some hundredths of a millisecond.
 */
import { constants, deflateRawSync, inflateRawSync } from 'node:zlib';

export type Packed = string | Uint8Array;

/** In characters. Shorter rows gain too little, and longer ones would delay other runs. */
const smallestRow = 768;
const largestRow = 16 * 1024;

export function packJson(json: string): Packed {
  if (json.length < smallestRow || json.length > largestRow) return json;
  const deflated = deflateRawSync(json, options);
  // A copy: the result is part of a larger buffer, which would go along to the writer thread.
  return deflated.byteLength < json.length ? new Uint8Array(deflated) : json;
}

/** `size`: of the JSON, in bytes. Throws if the payload is damaged. */
export function unpackJson(payload: Packed, size: number): string {
  if (typeof payload === 'string') return payload;
  return inflateRawSync(payload, { ...options, maxOutputLength: size }).toString();
}

/**
 * What rows have in common; the most frequent at the end. Part of the format: stored rows rely on every
 * character of it.
 */
const dictionary = [
  `,"error":{"code":"","message":"","retryable":false}`,
  `{"type":"approval.requested","agentId":"","approvalId":"","toolCallId":"","kind":"permission",`,
  `"tool":"","params":{},"digest":"","agentPath":["assistant"],"expiresAt":`,
  `{"type":"approval.decided","agentId":"","approvalId":"","toolCallId":"","approved":true,`,
  `"by":{"type":"key","id":"","name":""}}`,
  `{"type":"run.suspended","progress":{"partialOutput":"","toolsInvoked":["`,
  `{"type":"run.resumed","progress":{"partialOutput":"`,
  `,{"type":"tool.called","agentId":"","toolCallId":"call_","name":"","input":{"`,
  `{"type":"tool.started","agentId":"","toolCallId":"call_","name":"","input":{},"idempotencyKey":"`,
  `"rule":{"list":"allow"},{"type":"tool.completed","agentId":"","toolCallId":"call_","name":"",`,
  `"context":"","result":{"","durationMs":`,
  `[{"type":"reasoning.appended","agentId":"","reasoningId":"","text":"`,
  `[{"type":"run.created","surface":"runs","agent":"assistant","model":"gpt-","system":"You are `,
  `","messages":[{"role":"user","content":""}],"tools":[],"permissions":{},"maxIterations":50,`,
  `"conversationId":"01","labels":{},"history":,"correlationId":"01"},{"type":"run.started",`,
  `"progress":{"partialOutput":"","toolsInvoked":[]}},{"type":"agent.started","agentId":"01`,
  `","name":"assistant","model":"`,
  `[{"type":"turn.started","agentId":"01","turn":1,"textId":"01","reasoningId":"01"},`,
  `{"type":"text.appended","agentId":"01","textId":"01","text":"","lengths":"454344564"},`,
  `{"type":"turn.completed","agentId":"01","turn":1,"finishReason":"tool_calls","stop",`,
  `"usage":{"inputTokens":1,"outputTokens":1,"costUsd":0.0},"responseModel":"gpt-"},`,
  `{"type":"agent.ended","agentId":"01","reason":"completed","iterations":1,`,
  `"usage":{"inputTokens":1,"outputTokens":1},"progress":{"partialOutput":{"from":4},`,
  `"toolsInvoked":[]},"finishReason":"stop"},`,
  `{"type":"run.summarized","trust":{"toolsInvoked":[],"toolFailures":0,"evidenceCitations":[],`,
  `"evidenceHash":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",`,
  `"confidence":null,"missingEvidence":[],"verificationSteps":[],"retryAttempts":0,"durationMs":`,
  `}},{"type":"run.ended","status":"completed","output":{"from":4},`,
  `"usage":{"inputTokens":1,"outputTokens":1},"agent":"assistant","finishReason":"stop"}]`,
].join('');

const options = {
  dictionary: Buffer.from(dictionary),
  level: constants.Z_BEST_SPEED,
  chunkSize: 2048,
  // A row is small, and so is what is set up for it.
  windowBits: 12,
  memLevel: 5,
};
