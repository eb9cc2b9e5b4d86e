/** What a person is asked, whichever way it reached this terminal. */
import type { Approval, DecisionBody } from '@relay/sdk';
import { visible } from '../visible.ts';

export interface Request {
  readonly id: string;
  readonly kind: Approval['kind'];
  readonly tool: string;
  readonly params: unknown;
  /** The call as text in which nothing looks like something else. */
  readonly text: string;
  /** What there is to beware of in it. */
  readonly flags: readonly string[];
  /** Who asks, from the first agent down. */
  readonly agents: readonly string[];
  /** Whether the answer may bring other arguments, or an answer to a question. */
  readonly canEdit: boolean;
  readonly prompt?: string | undefined;
  readonly schema?: Approval['schema'];
}

export type Decision = DecisionBody;

export function requestOf(approval: Approval): Request {
  const { id, kind, tool, params, display, agentPath, prompt, schema } = approval;
  return {
    id,
    kind,
    tool,
    params,
    // The server has written out what does not show; this machine trusts no server with its screen.
    text: visible(display.text),
    flags: display.flags,
    agents: agentPath,
    canEdit: true,
    prompt,
    schema,
  };
}

export interface ApprovalLike {
  readonly id: string;
  readonly kind: Approval['kind'];
  readonly tool: string;
  readonly params: unknown;
  readonly agentPath?: readonly string[];
}

/** Without a key there is nothing to be seen of it but what the stream says. */
export function plainRequest(approval: ApprovalLike): Request {
  const { id, kind, tool, params, agentPath = [] } = approval;
  const written = `${tool} ${JSON.stringify(params, null, 2)}`;
  const text = visible(written);
  const flags = text === written ? [] : ['characters that do not show'];
  return { id, kind, tool, params, text, flags, agents: agentPath, canEdit: false };
}
