/**
 * The memories of a run: it recalls those of its namespace before its first turn, and stores one when
 * it completes. Its agents can do both by a tool.
 *
 * - The lookup happens once: its result is in the journal (`memory.recalled`) before any output of the
 *   model, and recovery reads it from there.
 * - The memory of a completed run is stored in the commit that ends the run, or not at all
 *   (`memory.stored`).
 * - Memories are data of unknown authors. They are shown as such, and one that an input guardrail of
 *   the agent refuses is not shown.
 */
import { defined, maxMemoryChars, type Message, type RunEvent, textOf } from '@relay/protocol';
import { findMemories } from './memory-search.ts';
import type { MemoryRecord, RunMemory } from '../../ports/index.ts';
import type { Activity } from '../activity.ts';
import { agentFields, type AgentState, answerOf } from '../state/agent.ts';
import { checkRecalled } from '../agents/guardrails.ts';
import { isStoreFault } from '../errors.ts';
import { exponentialBackoff } from '../../runtime/backoff.ts';
import type { LiveRun } from '../live-run.ts';
import { transcriptOf } from './transcript.ts';

const maxRecalled = 5;
/** Memories with a lower word score are not recalled. */
const minWordScore = 0.15;
/** Longer memories are truncated: the context window is for the conversation. */
const maxRecalledChars = 2_000;
const maxStoreBackoffMs = 5_000;
/** Of the question, and of the answer. */
const maxPartChars = maxMemoryChars / 2 - 100;

/** Recalls memories before the first turn of a run with memory; otherwise it does nothing. */
export async function recall(run: LiveRun, agent: AgentState, activity: Activity): Promise<void> {
  const { memory } = run.spec;
  if (memory === undefined || agent.parentId !== null || run.state.recalled) return;
  const query = await questionOf(run, agent);
  const found = await findMemories(run.engine, run.identity.tenantId, {
    namespace: memory.namespace,
    query,
    limit: maxRecalled,
    wordFloor: minWordScore,
  });
  const memories = found.memories.map(({ id, text, score, similarity, foundBy }) => ({
    id,
    text: truncated(text, maxRecalledChars),
    score,
    ...defined({ similarity }),
    foundBy,
  }));
  const shown = await checkRecalled(run, agent, activity, memories);
  if (activity.stopped) return;
  run.journal.append([
    {
      type: 'memory.recalled',
      ...agentFields(agent),
      namespace: memory.namespace,
      memories: shown,
      ...defined({ meaning: found.meaning }),
    },
  ]);
}

/** The memory of a completed run: its question and answer. None for a run without memory or question. */
export async function memoryOfRun(
  run: LiveRun,
  agent: AgentState,
): Promise<{ events: readonly RunEvent[]; memories: readonly MemoryRecord[] }> {
  const { memory } = run.spec;
  const question = memory === undefined ? '' : await questionOf(run, agent);
  if (memory === undefined || question === '') return { events: [], memories: [] };
  const { namespace } = memory;
  const asked = truncated(question, maxPartChars);
  const answered = truncated(answerOf(agent), maxPartChars);
  const record: MemoryRecord = {
    id: run.engine.ids.next(),
    namespace,
    text: `Asked: ${asked}\n\nAnswered: ${answered}`,
    runId: run.identity.id,
    source: 'run',
    createdAt: run.engine.clock.now(),
    expiresAt: null,
  };
  return {
    events: [{ type: 'memory.stored', ...agentFields(agent), namespace, memoryId: record.id }],
    memories: [record],
  };
}

/** The question that the run answers. A fork without messages of its own answers that of its source. */
async function questionOf(run: LiveRun, agent: AgentState): Promise<string> {
  const own = questionIn(run.spec.messages);
  if (own !== '' || run.spec.forkedFrom === undefined) return own;
  return questionIn(transcriptOf(await run.transcripts(), agent).messages);
}

/** The last text of the user. */
function questionIn(messages: readonly Message[]): string {
  const message = messages.findLast(
    ({ role, content }) => role === 'user' && textOf(content).trim() !== '',
  );
  return textOf(message?.content ?? '');
}

function truncated(text: string, chars: number): string {
  return text.length <= chars ? text : `${text.slice(0, chars - 4).toWellFormed()} […]`;
}

/**
 * The memories of a run, for its tools. The namespace is the run's: the model cannot choose it. A tool
 * does not fail by a fault of the store, but waits until the store works again.
 */
export function memoryFor(
  run: LiveRun,
  idempotencyKey: string,
  activity: Activity,
): RunMemory | undefined {
  const { spec, store, engine } = run;
  if (spec.memory === undefined) return undefined;
  const { namespace } = spec.memory;
  const whenStoreWorks = async <Value>(use: () => Promise<Value>): Promise<Value> => {
    for (let failures = 1; ; failures += 1) {
      try {
        return await use();
      } catch (error) {
        if (!isStoreFault(error) || activity.stopped) throw error;
        await engine.clock.sleep(exponentialBackoff(failures, maxStoreBackoffMs), activity.signal);
      }
    }
  };
  return {
    async search(query, limit) {
      const question = { namespace, query, limit, wordFloor: 0 };
      const search = () => findMemories(engine, run.identity.tenantId, question);
      return (await whenStoreWorks(search)).memories;
    },
    async remember(text) {
      const record: MemoryRecord = {
        id: engine.ids.next(),
        namespace,
        text,
        runId: run.identity.id,
        source: 'tool',
        createdAt: engine.clock.now(),
        expiresAt: null,
      };
      const memory = await whenStoreWorks(() => store.addMemory(record, idempotencyKey));
      engine.embedders?.memoryAdded(run.identity.tenantId);
      return memory;
    },
    forget: (memoryId) => whenStoreWorks(() => store.deleteMemory(memoryId, { namespace })),
  };
}
