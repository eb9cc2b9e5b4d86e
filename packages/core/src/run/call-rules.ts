/**
 * The rules that decide the calls of one agent: those of the run, of policies and of grants. What
 * allows only a limited number of calls is used up call by call, so that of two calls the first one
 * uses it (E7).
 */
import type { Permissions, RuleRef } from '@relay/protocol';
import type { ProgramRules } from '../engine.ts';
import { type Approver, findApprover } from '../permission/approvers.ts';
import { decideCounted, declaredBy, type Grant, type Verdict } from '../permission/decide.ts';
import { policiesOf, type Policy } from '../permission/policy.ts';
import { turnAfter } from '../permission/step-budget.ts';
import type { PathResolution, PolicyRecord, Tool } from '../ports/index.ts';
import { pathOf } from './agents/profile.ts';
import type { AgentState } from './state/agent.ts';
import type { CallState } from './state/call.ts';
import type { LiveRun } from './live-run.ts';

export interface DecidableCall {
  readonly call: CallState;
  readonly tool: Tool | undefined;
  readonly resolution?: PathResolution;
}

export class CallRules {
  readonly #permissions: Permissions;
  readonly #program: ProgramRules | undefined;
  readonly #policies: readonly Policy[];
  readonly #usedOnce: number[];
  readonly #requester: Approver | undefined;
  #grants: readonly Grant[];
  #steps = 0;

  private constructor(
    run: LiveRun,
    grants: readonly Grant[],
    policies: readonly Policy[],
    requester: Approver | undefined,
  ) {
    this.#program = run.engine.rules?.(run.ref);
    this.#permissions = run.spec.permissions;
    // A program removes its allow-once rules itself.
    this.#usedOnce = this.#program === undefined ? [...run.state.usedOnce] : [];
    this.#grants = grants;
    this.#policies = policies;
    this.#requester = requester;
  }

  /** The current rules. */
  static async load(run: LiveRun, agent: AgentState): Promise<CallRules> {
    const { id: runId, conversationId, owner } = run.identity;
    const [grants, policies] = await Promise.all([
      run.store.readGrants({
        runId,
        conversationId,
        sessionId: run.spec.sessionId,
        owner,
        now: run.engine.clock.now(),
      }),
      run.store.policies.inForce(...pathOf(run.state, agent)),
    ]);
    return CallRules.#with(run, agent, grants, policies);
  }

  static async withoutGrants(run: LiveRun, agent: AgentState): Promise<CallRules> {
    const policies = await run.store.policies.inForce(...pathOf(run.state, agent));
    return CallRules.#with(run, agent, [], policies);
  }

  static async #with(
    run: LiveRun,
    agent: AgentState,
    grants: readonly Grant[],
    records: readonly PolicyRecord[],
  ): Promise<CallRules> {
    const policies = policiesOf(records, ...pathOf(run.state, agent));
    const requester = policies.some(({ approvers }) => approvers.length > 0)
      ? await findApprover(run.store, run.identity.keyId, run.engine.clock.now())
      : undefined;
    return new CallRules(run, grants, policies, requester);
  }

  /** Arguments that are not an object have no parameters that a rule could match. */
  decide({ call, tool, resolution }: DecidableCall): Verdict {
    const { toolCallId, name, input } = call;
    const isObject = typeof input === 'object' && input !== null;
    const { verdict, steps } = decideCounted(
      { toolCallId, name, arguments: isObject ? (input as Record<string, unknown>) : {} },
      {
        permissions: this.#program?.current() ?? this.#permissions,
        usedOnce: this.#usedOnce,
        grants: this.#grants,
        policies: this.#policies,
        requester: this.#requester,
        builtinAllow: tool?.allowedByDefault ?? false,
        ...declaredBy(tool, resolution),
      },
    );
    this.#steps += steps;
    if (this.#program === undefined || verdict.rule?.source !== 'request') return verdict;
    return { ...verdict, rule: { ...verdict.rule, source: 'program' } };
  }

  /**
   * Lets others have their turn of the event loop after long decisions. Not between a decision and the
   * use of its rule, which another run may share.
   */
  async endTurn(): Promise<void> {
    const steps = this.#steps;
    this.#steps = 0;
    await turnAfter(steps);
  }

  /** A call was allowed by this rule. */
  use(rule: RuleRef): void {
    this.countUse(rule);
    if (rule.list === 'allowOnce') this.#program?.useOnce(rule.index);
  }

  /** A call that was decided elsewhere uses this rule: it is not available here. */
  countUse({ source, list, index, id }: RuleRef): void {
    if (list === 'allowOnce' && this.#program === undefined) this.#usedOnce.push(index);
    if (source !== 'grant') return;
    this.#grants = this.#grants.flatMap((grant) => {
      if (grant.id !== id || grant.usesLeft === undefined) return [grant];
      return grant.usesLeft > 1 ? [{ ...grant, usesLeft: grant.usesLeft - 1 }] : [];
    });
  }
}
