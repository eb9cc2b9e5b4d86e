/** One line for each event of a run that is worth one. */
import type { Run, StoredEvent } from '@relay/sdk';
import { cutTo, escapeLine, widthOf } from './escape.ts';
import { waitsText } from './decision-text.ts';
import { deniedByText } from './rule-text.ts';
import { type Paint, paintStatus } from './paint.ts';
import { shortId } from './short-id.ts';
import { formatCost } from './table.ts';

export type RunEventUsage = Extract<StoredEvent, { type: 'run.ended' }>['usage'];

/** What the user said. */
export function inputText({ input }: Pick<Run, 'input'>): string {
  if (typeof input === 'string') return input;
  const content = input?.findLast(({ role }) => role === 'user')?.content;
  if (typeof content === 'string') return content;
  // What follows the text is attached.
  return content?.flatMap((part) => (part.type === 'text' ? part.text : [])).at(0) ?? '';
}

export function usageText({ inputTokens, outputTokens, costUsd }: RunEventUsage): string {
  const cost = formatCost(costUsd);
  return `${inputTokens} in, ${outputTokens} out${cost === undefined ? '' : `, ${cost}`}`;
}

/** `320ms`, `4.2s`, `3m 5s`, `2h 10m`, `3d 4h`. */
export function formatDuration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)}ms`;
  if (ms < 60_000) return `${Number((ms / 1_000).toFixed(1))}s`;
  const seconds = Math.round(ms / 1_000);
  if (seconds < 3_600) return `${Math.floor(seconds / 60)}m ${seconds % 60}s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 1_440) return `${Math.floor(minutes / 60)}h ${minutes % 60}m`;
  const hours = Math.round(minutes / 60);
  return `${Math.floor(hours / 24)}d ${hours % 24}h`;
}

const longestText = 200;
const shortestText = 16;

/** Undefined for an event that is not worth a line. Its free text is cut, so that the line fits the width. */
export function runEventText(
  event: StoredEvent,
  paint: Paint,
  width = Infinity,
): string | undefined {
  const around = textOf(event, (_, text) => text, 1) ?? '';
  const room = Math.max(shortestText, width - widthOf(around) + 1);
  return textOf(event, paint, Math.min(longestText, room));
}

function textOf(event: StoredEvent, paint: Paint, maxLength: number): string | undefined {
  const shortText = (value: unknown) => {
    const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
    return cutTo(escapeLine(text), maxLength);
  };
  switch (event.type) {
    case 'run.created': {
      const last = event.messages.findLast(({ role }) => role === 'user')?.content;
      return `${paint('bold', 'started')} ${shortText(last ?? '')}`;
    }
    case 'run.resumed':
      return paint('dim', 'resumed');
    case 'run.errored':
      return paint('red', `✗ ${shortText(event.error.message)} [${event.error.code}]`);
    case 'run.ended': {
      const end = event.error?.message ?? event.output;
      return `${paintStatus(paint, event.status)} (${usageText(event.usage)}) ${shortText(end)}`;
    }
    case 'agent.started':
      return event.spawned === undefined
        ? undefined
        : `${paint('cyan', `+ ${escapeLine(event.name)}`)} ${shortText(event.spawned.task)}`;
    case 'agent.handed-off':
      return paint('dim', `${escapeLine(event.from)} hands off to ${escapeLine(event.to)}`);
    case 'limit.reached':
      return paint('yellow', `limit reached: ${event.limit}`);
    case 'memory.recalled': {
      const { length } = event.memories;
      if (length === 0) return undefined;
      const what = length === 1 ? '1 memory' : `${length} memories`;
      return paint('dim', `recalled ${what} of ${escapeLine(event.namespace)}`);
    }
    case 'memory.stored':
      return paint('dim', `remembered in ${escapeLine(event.namespace)}`);
    case 'context.compacted':
      return paint('dim', `context compacted (${usageText(event.usage)})`);
    case 'message.added':
      return paint('cyan', `@ ${escapeLine(event.from.name)}: ${shortText(event.content)}`);
    case 'turn.discarded': {
      const { turn, retry, code, reason } = event;
      const delay = retry === undefined ? '' : ` in ${formatDuration(retry.delayMs)}`;
      return paint('yellow', `turn ${turn} again${delay}: ${code ?? reason}`);
    }
    case 'tool.called':
      return paint('cyan', `→ ${escapeLine(event.name)} ${shortText(event.input)}`);
    case 'tool.completed':
      return paint(
        'dim',
        `← ${escapeLine(event.name)}${took(event)} ${shortText(outputOf(event))}`,
      );
    case 'tool.failed':
      return paint('red', `✗ ${escapeLine(event.name)}: ${shortText(event.error)}${took(event)}`);
    case 'tool.denied':
      return paint(
        'red',
        `✗ ${escapeLine(event.name)} ${event.rule === undefined ? event.status : deniedByText(event.rule)}${event.reason === undefined ? '' : `: ${shortText(event.reason)}`}`,
      );
    case 'approval.requested':
      return paint(
        'yellow',
        `? ${escapeLine(event.tool)} ${event.kind === 'outcome' ? 'was interrupted: it ' : ''}${waitsText[event.kind]} ${shortId(event.approvalId)}`,
      );
    case 'approval.decided':
      return paint('dim', `· ${decisionWord(event)} by ${escapeLine(event.by.name)}`);
    case 'approval.expired':
      return paint('yellow', `· approval ${shortId(event.approvalId)} expired`);
    default:
      return undefined;
  }
}

function outputOf({ result, context }: Extract<StoredEvent, { type: 'tool.completed' }>): unknown {
  return result ?? context ?? '';
}

function took({ durationMs }: { readonly durationMs?: number | undefined }): string {
  return durationMs === undefined ? '' : ` ${formatDuration(durationMs)}`;
}

export function decisionWord(event: Extract<StoredEvent, { type: 'approval.decided' }>): string {
  if (event.outcome !== undefined) return event.outcome;
  if (!event.approved) return 'denied';
  if (event.answer !== undefined) return 'answered';
  if (event.input !== undefined) {
    return `approved with ${cutTo(escapeLine(JSON.stringify(event.input)), longestText)}`;
  }
  return event.always === true ? 'approved always' : 'approved';
}
