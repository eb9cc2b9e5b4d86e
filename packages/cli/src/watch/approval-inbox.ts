/**
 * Works through the approvals that wait for a person: shows the oldest one, takes the decision and goes on.
 * If there is none, it waits for the next. A decision by another person closes the prompt.
 */
import type { Approval, ApprovalsQuery, RelayClient } from '@relay/sdk';
import { ApprovalPrompt } from '../chat/approval-prompt.ts';
import { type Decision, requestFromApproval, shownDigest } from '../chat/client.ts';
import { decideApproval, unsentNote } from '../chat/decide.ts';
import { editorFor } from '../chat/editor.ts';
import { Interrupted, Terminal } from '../chat/terminal.ts';
import { take, type Context } from '../command.ts';
import { isUnavailable } from '../errors.ts';
import { loadDecisionText } from '../output/decision-text.ts';
import { escapeLine } from '../output/escape.ts';
import { shortId } from '../output/short-id.ts';
import { age } from '../output/table.ts';
import { untilAvailable } from '../until-available.ts';

export interface InboxFilter {
  readonly tool?: string | undefined;
  readonly agent?: string | undefined;
  readonly mine?: boolean | undefined;
}

/** The prompt was closed: the approval is no longer pending. */
class DecidedElsewhere extends Error {
  override readonly name = 'DecidedElsewhere';
}

/** The prompt was closed: another approver changed the arguments. */
class Changed extends Error {
  override readonly name = 'Changed';
}

const mostListed = 1_000;

export class ApprovalInbox {
  readonly #context: Context;
  readonly #client: RelayClient;
  readonly #filter: InboxFilter;
  readonly #terminal: Terminal;
  readonly #prompt: ApprovalPrompt;
  readonly #stop = new AbortController();
  /** Those that this key cannot decide, or has voted on, with the digest of what it voted on. */
  readonly #passed = new Map<string, string | undefined>();
  #hasEnded = false;
  #open:
    | { readonly id: string; readonly digest: string | undefined; readonly close: AbortController }
    | undefined;
  #wake: () => void = () => {};
  #hasChanged = false;

  constructor(context: Context, client: RelayClient, filter: InboxFilter) {
    this.#context = context;
    this.#client = client;
    this.#filter = filter;
    this.#terminal = new Terminal(context.environment, context.environment.stdout);
    this.#prompt = new ApprovalPrompt({
      terminal: this.#terminal,
      paint: context.print.paint,
      writeLine: (line) => this.#line(line),
      openEditor: editorFor(context.environment, this.#terminal),
    });
  }

  /** Until the person leaves. */
  async run(): Promise<void> {
    this.#terminal.onInterrupt = () => this.#leave();
    // Not at once: a decision may be on its way.
    this.#terminal.onEnd = () => {
      this.#hasEnded = true;
      this.#wake();
    };
    const interrupt = () => this.#terminal.interrupt();
    process.on('SIGINT', interrupt);
    const following = this.#follow();
    try {
      await Promise.race([this.#work(), following]);
    } catch (error) {
      const hasLeft = error instanceof Interrupted || this.#stop.signal.aborted;
      if (!hasLeft) throw error;
    } finally {
      this.#leave();
      await following.catch(() => undefined);
      process.off('SIGINT', interrupt);
      this.#terminal.close();
    }
  }

  #leave(): void {
    this.#stop.abort();
    this.#wake();
  }

  #line(text: string): void {
    this.#context.environment.stdout.write(`${text}\n`);
  }

  #note(text: string): void {
    const line = this.#context.print.paint('dim', `· ${escapeLine(text)}`);
    this.#terminal.writeAbove(() => this.#line(line));
  }

  /** Notices new approvals, and that the open one was decided. */
  async #follow(): Promise<void> {
    const feed = this.#client.feed({
      signal: this.#stop.signal,
      reconnectTimeoutMs: Infinity,
      onDisconnect: ({ attempt }) => {
        if (attempt === 1) this.#note('The connection was lost; connecting again …');
      },
      onReconnect: () => this.#note('Connected again.'),
    });
    for await (const { kind } of feed) {
      if (kind !== 'approval' && kind !== 'connected' && kind !== 'all') continue;
      this.#hasChanged = true;
      this.#wake();
      await this.#checkOpen();
    }
  }

  async #checkOpen(): Promise<void> {
    const open = this.#open;
    if (open === undefined) return;
    try {
      const approval = await this.#client.approvals.get(open.id);
      if (approval.status !== 'pending') open.close.abort(new DecidedElsewhere());
      else if (shownDigest(approval) !== open.digest) open.close.abort(new Changed());
    } catch (error) {
      // It is checked again when the feed is connected again.
      if (!isUnavailable(error)) throw error;
    }
  }

  async #work(): Promise<void> {
    let isIdle = false;
    while (!this.#stop.signal.aborted && !this.#hasEnded) {
      this.#hasChanged = false;
      const [next, ...others] = await this.#again(() => this.#waiting());
      if (next !== undefined) {
        isIdle = false;
        if (!(await this.#ask(next, others.length))) return;
        continue;
      }
      if (!isIdle) this.#note('No approval waits. The next one appears here; Ctrl-C leaves.');
      isIdle = true;
      await this.#changed();
    }
  }

  async #again<Value>(request: () => Promise<Value>): Promise<Value> {
    return untilAvailable(request, { signal: this.#stop.signal });
  }

  /** Resolves at the next change, or when the person leaves. */
  async #changed(): Promise<void> {
    if (this.#hasChanged || this.#hasEnded || this.#stop.signal.aborted) return;
    await new Promise<void>((resolve) => (this.#wake = resolve));
  }

  /** Oldest first. */
  async #waiting(): Promise<readonly Approval[]> {
    const { tool, agent, mine } = this.#filter;
    const query: ApprovalsQuery = {
      status: 'pending',
      tool,
      decidable: mine === true ? 'true' : undefined,
      limit: 200,
    };
    const found = await take(this.#client.approvals.list(query), mostListed);
    return found
      .filter((each) => this.#passed.get(each.id) !== shownDigest(each))
      .filter(({ agentPath }) => agent === undefined || agentPath.includes(agent))
      .toReversed();
  }

  /** False if the input has ended. */
  async #ask(approval: Approval, others: number): Promise<boolean> {
    const { id } = approval;
    this.#title(approval, others);
    try {
      let request = requestFromApproval(approval);
      for (let rejected: Decision | undefined; ;) {
        const close = new AbortController();
        this.#open = { id, digest: request.digest, close };
        const decision = await this.#prompt.ask(request, close.signal, rejected);
        if (decision === undefined) return false;
        const result = await untilAvailable(() => decideApproval(this.#client, request, decision), {
          signal: this.#stop.signal,
          onFailure: (reason) => this.#note(`Not sent (${reason}): ${unsentNote}.`),
        });
        if ('problem' in result) {
          this.#line(result.problem);
          rejected = decision;
          const current = await this.#again(() => this.#client.approvals.get(id));
          if (current.status !== 'pending') throw new DecidedElsewhere();
          request = requestFromApproval(current);
          continue;
        }
        if (result.note !== undefined) this.#note(result.note);
        else await this.#report(id);
        if (result.isPending) this.#passed.set(id, result.digest);
        return true;
      }
    } catch (error) {
      if (error instanceof DecidedElsewhere) await this.#report(id);
      else if (error instanceof Changed) this.#note('Another approver changed the arguments.');
      else throw error;
      return true;
    } finally {
      this.#open = undefined;
    }
  }

  #title({ id, runId, agentPath, requestedAt, expiresAt }: Approval, others: number): void {
    const { paint } = this.#context.print;
    const now = Date.now();
    const facts = [
      `approval ${shortId(id)}`,
      ...(runId === undefined ? [] : [`run ${shortId(runId)}`]),
      ...(agentPath[0] === undefined ? [] : [escapeLine(agentPath[0])]),
      `asked ${age(requestedAt, now)}`,
      `expires ${age(expiresAt, now)}`,
      ...(others === 0 ? [] : [`${others} more`]),
    ];
    this.#line('');
    this.#line(paint('dim', facts.join(', ')));
  }

  async #report(id: string): Promise<void> {
    this.#note(await this.#again(() => loadDecisionText(this.#client, id)));
  }
}
