/** A hint as a short word: its first command, and the ids behind it. */
import type { Hint } from '@relay/core';

export function encodeHint(hint: Hint): string {
  switch (hint.kind) {
    case 'journal':
      return `j\t${hint.runId}`;
    case 'run':
      return `r\t${hint.tenantId}\t${hint.runId}`;
    case 'approval':
      return `a\t${hint.tenantId}\t${hint.approvalId}`;
    case 'wake':
      return `w\t${hint.tenantId}\t${hint.runId}`;
    case 'tenant':
      return `t\t${hint.tenantId}`;
    case 'all':
      return '*';
  }
}

/** Nothing for a word that this version does not know. */
export function decodeHint(word: string): Hint | undefined {
  const [command, first = '', second = ''] = word.split('\t');
  switch (command) {
    case 'j':
      return { kind: 'journal', runId: first };
    case 'r':
      return { kind: 'run', tenantId: first, runId: second };
    case 'a':
      return { kind: 'approval', tenantId: first, approvalId: second };
    case 'w':
      return { kind: 'wake', tenantId: first, runId: second };
    case 't':
      return { kind: 'tenant', tenantId: first };
    case '*':
      return { kind: 'all' };
    default:
      return undefined;
  }
}
