import type { ApprovalKind } from '../schemas/approvals.ts';
import type { AgentEnd, Usage } from '../schemas/runs.ts';

/** Who speaks; below a spawned agent also whom it works for. */
interface OfAgent {
  runId: string;
  agentId: string;
  parentId?: string;
}

/** Every frame of `POST /chat`, by its `type`. `connected` comes first. */
export type ChatFrame =
  | { type: 'connected'; sessionId: string }
  | (OfAgent &
      (
        | { type: 'harness_start' }
        /** Pieces with the same id belong together. */
        | { type: 'text' | 'reasoning'; id: string; content: string }
        /** What was said under this id is void: the model is asked again. */
        | { type: 'text_discard'; id: string }
        | { type: 'tool_call'; id: string; name: string; input: unknown }
        | { type: 'tool_progress'; id: string; toolCallId: string; name: string; content: string }
        | { type: 'tool_result'; id: string; name: string; output: ChatToolOutput }
        | {
            type: 'relay';
            kind: ApprovalKind;
            id: string;
            toolCallId: string;
            tool: string;
            params: unknown;
            agentPath?: readonly string[];
          }
        | ({ type: 'usage' } & Usage)
        | { type: 'harness_end'; reason: AgentEnd; iterations: number; totalUsage: Usage }
      ))
  | { type: 'error'; runId: string; agentId?: string; message: string; code: string };

/** What a tool gave, or the `status` of a call that brought nothing. */
export interface ChatToolOutput {
  context?: string;
  result?: unknown;
  status?: 'denied' | 'expired' | 'error';
  reason?: string;
  error?: string;
  code?: string;
}
