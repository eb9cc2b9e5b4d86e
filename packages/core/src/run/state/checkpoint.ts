/**
 * The checkpoint envelope in `runs.serialized_state`. It points at a `seq` of the journal and never
 * copies the transcript, so that it stays small however long the run is. Its note, for operators who
 * read the table, is the end of the text before the boundary.
 */
import {
  type CheckpointEnvelope,
  type CheckpointKind,
  checkpointEnvelopeSchema,
  defined,
  RelayError,
  type StoredEvent,
} from '@relay/protocol';
import type { RunIdentity } from '../../ports/index.ts';
import { answerOf } from './agent.ts';
import { lastChars, rootAgent, type RunState } from './state.ts';

/** The boundary that an event marks, if it marks one. */
export function boundaryOf(event: StoredEvent): CheckpointKind | undefined {
  switch (event.type) {
    case 'run.created':
    case 'run.started':
    case 'run.resumed':
      return 'resume_request';
    case 'tool.completed':
    case 'tool.failed':
      return 'tool_completion';
    case 'approval.requested':
      return 'approval_pending';
    case 'run.ended':
      return 'final_result';
    default:
      return undefined;
  }
}

/** The envelope for the last boundary among the events, or undefined if there was none. */
export function checkpointOf(
  events: readonly StoredEvent[],
  state: RunState,
  run: RunIdentity,
): string | undefined {
  const event = events.findLast((candidate) => boundaryOf(candidate) !== undefined);
  const kind = event === undefined ? undefined : boundaryOf(event);
  if (event === undefined || kind === undefined) return undefined;
  const agent = rootAgent(state)?.name ?? run.agent;
  const tool = toolOf(event);
  const note = tool === undefined ? '' : noteOf(state);
  const envelope: CheckpointEnvelope = {
    version: 1,
    serializedRunState: JSON.stringify({ runId: run.id, seq: state.seq, agent }),
    checkpoint: {
      kind,
      at: event.at,
      runId: run.id,
      correlationId: run.correlationId,
      ...defined({ tool, note: note === '' ? undefined : note }),
    },
  };
  return JSON.stringify(envelope);
}

/** The envelope of a request to resume a run: it points at the state that the run is resumed from. */
export function resumeRequestOf(
  run: RunIdentity,
  { serializedRunState, at }: { serializedRunState: string; at: number },
): string {
  const envelope: CheckpointEnvelope = {
    version: 1,
    serializedRunState,
    checkpoint: {
      kind: 'resume_request',
      at: new Date(at).toISOString(),
      runId: run.id,
      correlationId: run.correlationId,
    },
  };
  return JSON.stringify(envelope);
}

/** Reads an envelope. An unknown version is an error. */
export function parseCheckpoint(text: string): CheckpointEnvelope {
  const value = jsonOf(text);
  const parsed = checkpointEnvelopeSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  const version = (value as { version?: unknown } | null)?.version;
  throw new RelayError(
    'journal_corrupt',
    version === 1
      ? 'The checkpoint is malformed'
      : `The checkpoint has version ${String(version)}; this server reads version 1`,
  );
}

const noteChars = 200;

/** The end of the root agent's text in this turn. */
function noteOf(state: RunState): string {
  return lastChars(answerOf(rootAgent(state)), noteChars);
}

function toolOf(event: StoredEvent): { name: string; toolCallId: string } | undefined {
  if (event.type === 'tool.completed' || event.type === 'tool.failed') {
    return { name: event.name, toolCallId: event.toolCallId };
  }
  if (event.type === 'approval.requested')
    return { name: event.tool, toolCallId: event.toolCallId };
  return undefined;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new RelayError('journal_corrupt', 'The checkpoint is not JSON', { cause });
  }
}
