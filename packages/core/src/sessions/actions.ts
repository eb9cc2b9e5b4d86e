/** Actions: who has one, and what its handler gets. Those of the configuration have a function. */
import {
  type ActionSelector,
  canonicalJson,
  type FieldIssue,
  type FunctionTool,
  issuesOfValue,
  type JsonSchema,
  RelayError,
  type Sender,
} from '@relay/protocol';
import type { Engine } from '../engine.ts';
import { actionPrefix } from '../permission/tool-name.ts';
import type {
  ActionRecord,
  InvocationRecord,
  SessionRecord,
  TenantStore,
  Tool,
} from '../ports/index.ts';
import { clientTool } from '../run/waiting/client-calls.ts';
import { holdsCapability } from './capabilities.ts';

export interface ActionContext {
  readonly invocationId: string;
  readonly tenantId: string;
  readonly by: Sender;
  /** The same if the action is idempotent and is started again after a crash. */
  readonly idempotencyKey: string;
  /** Aborted when the time is over. */
  readonly signal: AbortSignal;
}

/** Returns the output, any JSON. What it throws is the error of the invocation. */
export type ActionHandler = (input: Record<string, unknown>, context: ActionContext) => unknown;

export interface Action extends ActionRecord {
  /** Of the configuration. */
  readonly handler?: ActionHandler;
}

/** Why a handler failed. */
export class ActionFailed extends Error {
  override readonly name = 'ActionFailed';
  readonly retryable: boolean;

  constructor(message: string, options: { readonly retryable?: boolean } = {}) {
    super(message);
    this.retryable = options.retryable ?? false;
  }
}

/** The time that a handler has, unless the action says otherwise. */
export const defaultActionTimeoutMs = 10 * 60 * 1000;

/** The actions of a tenant: of the configuration, which has all tenants, and registered ones. */
export async function findAction(
  own: ReadonlyMap<string, Action> | undefined,
  store: TenantStore,
  name: string,
): Promise<Action | undefined> {
  return own?.get(name) ?? (await store.actions.read(name));
}

/** Undefined if the action was removed since it was invoked, or another has its name now. */
export async function actionOf(
  own: ReadonlyMap<string, Action> | undefined,
  store: TenantStore,
  { action: name, at, sessionId }: Pick<InvocationRecord, 'action' | 'at' | 'sessionId'>,
): Promise<Action | undefined> {
  const action = await findAction(own, store, name);
  const isSame = action !== undefined && action.createdAt <= at && action.sessionId === sessionId;
  return isSame ? action : undefined;
}

/** A grant or an approval is for the action as it was registered, and for who carries it out. */
export function digestOfAction({ digest }: Pick<Engine, 'digest'>, action: Action): string {
  const { name, description, inputSchema, outputSchema, sessionId, url } = action;
  return digest(canonicalJson({ name, description, inputSchema, outputSchema, sessionId, url }));
}

/** An action as rules and approvers see it; undefined if the name is not one of an action. */
export async function actionTool(
  engine: Pick<Engine, 'digest' | 'invocations'>,
  store: TenantStore,
  tool: string,
): Promise<Tool | undefined> {
  if (!tool.startsWith(actionPrefix)) return undefined;
  const action = await findAction(engine.invocations?.own, store, tool.slice(actionPrefix.length));
  if (action === undefined) return undefined;
  return toolOfAction(engine, action);
}

export function toolOfAction(engine: Pick<Engine, 'digest'>, action: Action): Tool {
  const { name, description } = action;
  const inputSchema = action.inputSchema as FunctionTool['inputSchema'];
  const tool = clientTool({ name: `${actionPrefix}${name}`, description, inputSchema });
  return { ...tool, definitionDigest: digestOfAction(engine, action) };
}

/** What its handler gets: as an approver has changed it, or as it was requested. */
export function inputOf({ input, editedInput }: InvocationRecord): unknown {
  return editedInput ?? input;
}

/** Selectors are about sessions: a key has the actions that everyone has. */
export function isAvailableTo(
  { availableTo }: Pick<ActionRecord, 'availableTo'>,
  session: SessionRecord | undefined,
): boolean {
  if (availableTo === null) return true;
  return session !== undefined && availableTo.some((selector) => selects(selector, session));
}

function selects(selector: ActionSelector, session: SessionRecord): boolean {
  if ('handle' in selector) return selector.handle === session.handle;
  if ('kind' in selector) return selector.kind === session.kind;
  if ('capability' in selector) return holdsCapability(session.capabilities, selector.capability);
  const colon = selector.label.indexOf(':');
  const name = selector.label.slice(0, colon);
  return (
    Object.hasOwn(session.labels, name) && session.labels[name] === selector.label.slice(colon + 1)
  );
}

/** Throws `invalid_request` with the paths of what does not match the schema. */
export function checkInput({ name, inputSchema }: Action, input: unknown): void {
  const issues = issuesOfValue(inputSchema as JsonSchema, input);
  const [first] = issues;
  if (first === undefined) return;
  const details = issues.map(({ path, message }) => ({ path: pathIn('input', path), message }));
  throw new RelayError(
    'invalid_request',
    `${pathIn('input', first.path)}: ${lowerFirst(first.message)}; see the inputSchema of ${name}`,
    { details },
  );
}

/** What is wrong with an output; undefined if nothing is, or the action declares nothing. */
export function problemWithOutput(action: Action | undefined, output: unknown): string | undefined {
  const schema = action?.outputSchema;
  if (schema === undefined || schema === null) return undefined;
  const [issue] = issuesOfValue(schema as JsonSchema, output);
  return issue === undefined ? undefined : textOf(issue);
}

function textOf({ path, message }: FieldIssue): string {
  return `${pathIn('output', path)}: ${lowerFirst(message)}`;
}

function pathIn(root: string, path: string): string {
  if (path === '') return root;
  return path.startsWith('[') ? `${root}${path}` : `${root}.${path}`;
}

function lowerFirst(text: string): string {
  return `${text.charAt(0).toLowerCase()}${text.slice(1)}`;
}
