import { canonicalJson, type EventOf, type Trust } from '@relay/protocol';
import type { LiveRun } from './live-run.ts';
import { pagesOf } from './pages.ts';

/**
 * What the answer rests on. The citations are read from the journal once, at the end: carrying them
 * along would make every turn cost as much as all turns before it.
 */
export async function trustOf(run: LiveRun): Promise<Trust> {
  const { state, engine } = run;
  const completed = state.toolsSucceeded === 0 ? [] : await completedTools(run);
  const calls = state.toolsSucceeded + state.toolsFailed;
  return {
    toolsInvoked: [...state.toolsInvoked],
    toolFailures: state.toolsFailed,
    evidenceCitations: completed.map(({ toolCallId, name: tool }) => ({ toolCallId, tool })),
    evidenceHash: engine.digest(
      canonicalJson(
        completed.map(({ toolCallId, name, context, result }) => ({
          toolCallId,
          name,
          context,
          result,
        })),
      ),
    ),
    confidence: calls === 0 ? null : state.toolsSucceeded / calls,
    missingEvidence: [],
    verificationSteps: [],
    retryAttempts: state.retries,
    durationMs:
      state.startedAt === null ? 0 : Math.max(0, engine.clock.now() - Date.parse(state.startedAt)),
  };
}

async function completedTools(run: LiveRun): Promise<EventOf<'tool.completed'>[]> {
  await run.journal.settled();
  const completed: EventOf<'tool.completed'>[] = [];
  for await (const page of pagesOf(run.store, run.identity.id, { after: 0, to: Infinity })) {
    for (const event of page) if (event.type === 'tool.completed') completed.push(event);
  }
  return completed;
}
