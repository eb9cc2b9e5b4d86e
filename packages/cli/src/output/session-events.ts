/** The events of a session as lines: number, time, type, and what matters of the rest. */
import type { StoredSessionEvent } from '@relay/sdk';
import { cutTo, escapeLine } from './escape.ts';
import { type Paint, paintStatus } from './paint.ts';
import { formatCost } from './table.ts';

const maxDetailLength = 200;

export function eventLine(event: StoredSessionEvent, paint: Paint): string {
  const time = event.at.slice(11, 19);
  const detail = cutTo(escapeLine(detailOf(event)), maxDetailLength);
  const shown = event.type === 'status.changed' ? statusLine(event, detail, paint) : detail;
  const head = `${String(event.seq).padStart(5)}  ${time}`;
  return `${paint('dim', head)}  ${event.type.padEnd(18)} ${shown}`.trimEnd();
}

function statusLine({ status }: { readonly status: string }, detail: string, paint: Paint): string {
  return detail.replace(status, paintStatus(paint, status));
}

function detailOf(event: StoredSessionEvent): string {
  switch (event.type) {
    case 'status.changed':
      return [event.status, event.reason].filter((part) => part !== undefined).join(': ');
    case 'tool.called':
      return `${event.tool} ${jsonOf(event.input)}`;
    case 'tool.completed':
      return `${event.tool} ${jsonOf(event.output)}`;
    case 'tool.output':
      return `${event.tool} ${event.output}`;
    case 'tool.failed':
      return `${event.tool}: ${event.error}`;
    case 'message.received':
    case 'message.sent':
    case 'delivery.accepted':
    case 'delivery.delivered':
      return `message ${event.messageId}`;
    case 'delivery.deferred':
    case 'delivery.failed':
      return `message ${event.messageId}: ${event.reason ?? ''}`;
    case 'action.invoked':
    case 'action.completed':
      return `${event.action} (${event.invocationId})`;
    case 'action.failed':
      return `${event.action}: ${event.error}`;
    case 'action.denied':
      return `${event.action}: ${event.reason}`;
    case 'transcript.chunk':
      return `${event.chunk.role}: ${event.chunk.content}`;
    case 'file.changed':
      return `${event.operation} ${event.path}`;
    case 'command.started':
      return event.command;
    case 'command.completed':
      return event.exitCode === undefined ? event.command : `${event.command} → ${event.exitCode}`;
    case 'command.failed':
      return `${event.command}: ${event.error}`;
    case 'terminal.output':
    case 'terminal.screen':
      return event.text;
    case 'usage.updated':
      return [
        ...(event.tokens === undefined ? [] : [`${event.tokens} tokens`]),
        ...(event.costUsd === undefined ? [] : [formatCost(event.costUsd)]),
      ].join(', ');
    case 'session.released':
      return event.reason ?? '';
    case 'session.forked':
      return `from ${event.parentSessionId}`;
    case 'session.started':
    case 'session.resumed':
      return '';
    case 'log':
      return `${event.level}: ${event.message}`;
    case 'error':
      return event.code === undefined ? event.error : `${event.error} [${event.code}]`;
  }
}

function jsonOf(value: unknown): string {
  return value === undefined ? '' : (JSON.stringify(value) ?? '');
}
