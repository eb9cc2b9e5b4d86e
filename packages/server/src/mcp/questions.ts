/**
 * Questions of a run to the user of the client that waits for it. The tool returns what it asks for, the
 * client asks its user, and calls the tool again with the answer and with a state that only this server can
 * make. The state is bound to the tenant, the key, the run and the approval, and it expires. A decision is
 * stored once, so a state that is sent again changes nothing.
 *
 * Permissions and outcomes are never asked for in this way: a model may drive the client, and would consent
 * for a person.
 */
import {
  CLIENT_CAPABILITIES_META_KEY,
  type ClientCapabilities,
  createRequestStateCodec,
  type ElicitRequestFormParams,
  inputRequired,
  type InputRequiredResult,
  inputResponse,
  isSpecType,
  type RequestStateCodec,
  type ServerContext,
} from '@modelcontextprotocol/server';
import { escapeMisleading, type ResponseOf, routes } from '@relay/protocol';
import { z } from 'zod';
import { requireAccess } from '../http/auth.ts';
import { type ApiRequest, storeOf } from '../http/handlers/handler.ts';
import { callRoute, type Exchange } from './call-route.ts';

/** A question that the user of the client was asked. */
interface AskedQuestion {
  readonly runId: string;
  readonly approvalId: string;
  /** Of what was shown. */
  readonly digest: string;
}

/** A person may need some time. */
const ttlSeconds = 60 * 60;

export function requestStates({ caller, context }: ApiRequest): RequestStateCodec<AskedQuestion> {
  const bind = () => JSON.stringify([caller.tenantId, caller.actor.type, caller.actor.id]);
  return createRequestStateCodec({ key: context.requestStateKey, ttlSeconds, bind });
}

/** Clients of 2025 are served without a state, so what they can do is not known. */
function canAsk({ client }: Exchange): boolean {
  const envelope: Readonly<Partial<Record<string, ClientCapabilities>>> = client.envelope ?? {};
  const { elicitation } = envelope[CLIENT_CAPABILITIES_META_KEY] ?? {};
  // Without a mode it means forms.
  return elicitation !== undefined && ('form' in elicitation || !('url' in elicitation));
}

/** What asks the user the oldest question of the run that this key may answer, if there is one. */
export async function askUser(
  call: ApiRequest,
  exchange: Exchange,
  runId: string,
): Promise<InputRequiredResult | undefined> {
  if (!canAsk(exchange)) return undefined;
  const query = { runId, kind: 'question', decidable: 'true' };
  const { approvals } = await callRoute(call, 'listApprovals', { query });
  const question = approvals.at(-1);
  if (question === undefined) return undefined;
  const form = formOf(question);
  if (form === undefined) return undefined;
  const { id: approvalId, digest } = question;
  const context = { mcpReq: exchange.client } as ServerContext;
  return inputRequired({
    inputRequests: { [approvalId]: { method: 'elicitation/create', params: form } },
    requestState: await requestStates(call).mint({ runId, approvalId, digest }, context),
  });
}

type Question = Pick<ResponseOf<'getApproval'>, 'tool' | 'prompt'> & { readonly schema?: unknown };

/** Undefined if the answer does not fit a form of the protocol, which has only plain fields. */
function formOf({ tool, prompt = '', schema }: Question): ElicitRequestFormParams | undefined {
  const requestedSchema: unknown = JSON.parse(JSON.stringify(schema ?? null), formField);
  const message = escapeMisleading(`${tool} asks: ${prompt}`);
  const form: unknown = { mode: 'form', message, requestedSchema };
  return isSpecType.ElicitRequestFormParams(form) ? form : undefined;
}

const choiceSchema = z.looseObject({ type: z.never().optional(), enum: z.array(z.string()) });

function formField(key: string, value: unknown): unknown {
  const isShown = key === 'title' || key === 'description';
  if (isShown && typeof value === 'string') return escapeMisleading(value);
  // A form must name the type of a choice.
  const choice = choiceSchema.safeParse(value);
  return choice.success ? { ...choice.data, type: 'string' } : value;
}

type UserAnswer =
  | { readonly kind: 'none' | 'dismissed' }
  | { readonly kind: 'answered'; readonly content: unknown }
  | { readonly kind: 'declined' };

/** The question that a call continues with, and what the user said. */
export interface UserAnswered {
  readonly asked: AskedQuestion;
  readonly answer: UserAnswer;
}

export function answerIn({ client }: Exchange): UserAnswered | undefined {
  const asked = client.requestState<AskedQuestion>();
  if (asked === undefined) return undefined;
  const given = inputResponse(client.inputResponses, asked.approvalId);
  if (given.kind !== 'elicit') return { asked, answer: { kind: 'none' } };
  if (given.action === 'accept') {
    return { asked, answer: { kind: 'answered', content: given.content ?? {} } };
  }
  return { asked, answer: { kind: given.action === 'decline' ? 'declined' : 'dismissed' } };
}

/** Decides the question. False if nothing follows from it: it was decided before, or not by this answer. */
export async function decideQuestion(
  call: ApiRequest,
  { approvalId, digest }: AskedQuestion,
  answer: UserAnswer,
): Promise<boolean> {
  if (answer.kind === 'none' || answer.kind === 'dismissed') return false;
  requireAccess(call.caller, routes.decideApproval, { id: approvalId });
  const approval = await storeOf(call).readApproval(approvalId);
  if (approval?.kind !== 'question' || approval.status !== 'pending') return false;
  const body =
    answer.kind === 'answered'
      ? { approved: true, input: answer.content, digest }
      : { approved: false, reason: 'Declined by the user of the MCP client' };
  const { status } = await callRoute(call, 'decideApproval', { params: { id: approvalId }, body });
  return status !== 'pending';
}
