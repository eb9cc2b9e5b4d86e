/**
 * What a run has to do with memories: it reads those of its namespace before its first turn, and
 * leaves one behind when it completes. Its agents may do both by a tool.
 *
 * - The lookup happens once: what it brought is in the journal (`memory.recalled`), and a run that is
 *   taken up after a crash reads that. It enters the journal before anything the model says.
 * - What is left behind is stored in the commit that ends the run, or not at all (`memory.stored`).
 * - Memories are data that others may have written. They are shown as such, and one that an input
 *   guardrail of the agent refuses is not shown.
 */
import { maxMemoryChars, type Message, type RunEvent, textOf } from '@relay/protocol';
import { findMemories } from './memory-search.ts';
import type { MemoryRecord, RunMemory } from '../../ports/index.ts';
import type { Activity } from '../activity.ts';
import { agentFields, type AgentState } from '../state/agent.ts';
import { checkRecalled } from '../agents/guardrails.ts';
import type { LiveRun } from '../live-run.ts';
import { transcriptOf } from './transcripts.ts';

/** How many are recalled at most. */
const recalledAtMost = 5;
/** What speaks of less of the question than this is not recalled. */
const recallFloor = 0.15;
/** Of each: the window is for the conversation. */
const recalledChars = 2_000;
/** Of the input, and of the answer. */
const partChars = maxMemoryChars / 2 - 100;

interface Recalling {
  readonly run: LiveRun;
  readonly agent: AgentState;
  readonly activity: Activity;
}

/** Before the first turn of a run with memory; later, and in other runs, it does nothing. */
export async function recall({ run, agent, activity }: Recalling): Promise<void> {
  const { memory } = run.spec;
  if (memory === undefined || agent.parentId !== null || run.state.recalled) return;
  const query = await questionOf(run, agent);
  const found = await findMemories(run.engine, run.identity.tenantId, {
    namespace: memory.namespace,
    query,
    limit: recalledAtMost,
    wordFloor: recallFloor,
  });
  const memories = found.memories.map(({ id, text, score, similarity, foundBy }) => ({
    id,
    text: shortened(text, recalledChars),
    score,
    ...(similarity === undefined ? {} : { similarity }),
    foundBy,
  }));
  const shown = await checkRecalled({ run, agent, activity }, memories);
  if (activity.stopped) return;
  run.journal.append([
    {
      type: 'memory.recalled',
      ...agentFields(agent),
      namespace: memory.namespace,
      memories: [...shown],
      ...(found.meaning === undefined ? {} : { meaning: found.meaning }),
    },
  ]);
}

export interface LeftBehind {
  readonly events: readonly RunEvent[];
  readonly remember: readonly MemoryRecord[];
}

/** The exchange that a completed run leaves behind; nothing for a run without memory or question. */
export async function leftBehind(run: LiveRun, agent: AgentState): Promise<LeftBehind> {
  const { memory } = run.spec;
  const question = memory === undefined ? '' : await questionOf(run, agent);
  if (memory === undefined || question === '') return { events: [], remember: [] };
  const { namespace } = memory;
  const asked = shortened(question, partChars);
  const answered = shortened(agent.turn?.text ?? '', partChars);
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
    remember: [record],
  };
}

/** What the run is asked. A fork may come without a word of its own: it is asked what its source was. */
async function questionOf(run: LiveRun, agent: AgentState): Promise<string> {
  const own = questionIn(run.spec.messages);
  if (own !== '' || run.spec.forkedFrom === undefined) return own;
  return questionIn(transcriptOf(await run.transcripts(), agent).messages);
}

/** What the user said last. */
function questionIn(messages: readonly Message[]): string {
  const said = messages.findLast(
    ({ role, content }) => role === 'user' && textOf(content).trim() !== '',
  );
  return textOf(said?.content ?? '');
}

function shortened(text: string, chars: number): string {
  return text.length <= chars ? text : `${text.slice(0, chars - 4).toWellFormed()} […]`;
}

/** What a tool can do with the memories of its run: the namespace is the run's, never the model's. */
export function memoryFor(run: LiveRun, idempotencyKey: string): RunMemory | undefined {
  const { spec, store, engine } = run;
  if (spec.memory === undefined) return undefined;
  const { namespace } = spec.memory;
  return {
    async search(query, limit) {
      const question = { namespace, query, limit, wordFloor: 0 };
      return (await findMemories(engine, run.identity.tenantId, question)).memories;
    },
    async remember(text) {
      const memory = await store.addMemory(
        {
          id: engine.ids.next(),
          namespace,
          text,
          runId: run.identity.id,
          source: 'tool',
          createdAt: engine.clock.now(),
          expiresAt: null,
        },
        idempotencyKey,
      );
      engine.embedders?.memoryAdded(run.identity.tenantId);
      return memory;
    },
    forget: (memoryId) => store.deleteMemory(memoryId, { namespace }),
  };
}
