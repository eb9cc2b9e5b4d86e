/**
 * The evidence for a run's answer: each successful tool result with its hash. It is collected while the
 * run is driven. What came before the run was loaded is read from the journal, once, at the end: keeping it
 * in the state would make every turn cost as much as all turns before it.
 */
import { canonicalJson, type RunEvent } from '@relay/protocol';
import { readJournal } from '../journal.ts';
import type { Digest, TenantStore } from '../ports/index.ts';
import type { RunState } from './state/state.ts';

export interface ToolResult {
  readonly toolCallId: string;
  readonly tool: string;
  /** Each result has a hash of its own: all results together may exceed the length of a string. */
  readonly hash: string;
}

export class Evidence {
  readonly #digest: Digest;
  readonly #loaded: Pick<RunState, 'seq' | 'toolsSucceeded'>;
  readonly #results: ToolResult[] = [];

  /** From the state in which the run was loaded. */
  constructor(digest: Digest, { seq, toolsSucceeded }: Pick<RunState, 'seq' | 'toolsSucceeded'>) {
    this.#digest = digest;
    this.#loaded = { seq, toolsSucceeded };
  }

  add(events: readonly RunEvent[]): void {
    for (const event of events) {
      if (event.type !== 'tool.completed') continue;
      const { toolCallId, name: tool, context, result, attachments } = event;
      const hash = this.#digest(
        canonicalJson({ toolCallId, name: tool, context, result, attachments }),
      );
      this.#results.push({ toolCallId, tool, hash });
    }
  }

  /** All results of the run, in the order of the journal. */
  async all(store: TenantStore, runId: string): Promise<readonly ToolResult[]> {
    const { seq, toolsSucceeded } = this.#loaded;
    if (toolsSucceeded === 0) return this.#results;
    const earlier = new Evidence(this.#digest, { seq: 0, toolsSucceeded: 0 });
    for await (const page of readJournal(store, runId, { after: 0, to: seq })) earlier.add(page);
    return [...earlier.#results, ...this.#results];
  }
}
