import { canonicalJson, type Trust } from '@relay/protocol';
import type { LiveRun } from '../live-run.ts';
import { pagesOf } from '../context/pages.ts';

/**
 * What the answer rests on. The citations are read from the journal once, at the end: carrying them
 * along would make every turn cost as much as all turns before it.
 */
export async function trustOf(run: LiveRun): Promise<Trust> {
  const { state, engine } = run;
  const evidence = state.toolsSucceeded === 0 ? [] : await evidenceOf(run);
  const calls = state.toolsSucceeded + state.toolsFailed;
  return {
    toolsInvoked: [...state.toolsInvoked],
    toolFailures: state.toolsFailed,
    evidenceCitations: evidence.map(({ toolCallId, tool }) => ({ toolCallId, tool })),
    evidenceHash: engine.digest(evidence.map(({ hash }) => hash).join()),
    confidence: calls === 0 ? null : state.toolsSucceeded / calls,
    missingEvidence: [],
    verificationSteps: [],
    retryAttempts: state.retries,
    durationMs:
      state.startedAt === null ? 0 : Math.max(0, engine.clock.now() - Date.parse(state.startedAt)),
  };
}

interface Evidence {
  readonly toolCallId: string;
  readonly tool: string;
  readonly hash: string;
}

/** Each result is summed up by itself: together they may be larger than any text can be. */
async function evidenceOf({ journal, store, identity, engine }: LiveRun): Promise<Evidence[]> {
  await journal.settled();
  const evidence: Evidence[] = [];
  for await (const page of pagesOf(store, identity.id, { after: 0, to: Infinity })) {
    for (const event of page) {
      if (event.type !== 'tool.completed') continue;
      const { toolCallId, name: tool, context, result } = event;
      const hash = engine.digest(canonicalJson({ toolCallId, name: tool, context, result }));
      evidence.push({ toolCallId, tool, hash });
    }
  }
  return evidence;
}
