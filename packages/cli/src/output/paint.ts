/** Colours, for terminals only. */
import { type CliEnvironment, type Output, setting } from '../environment.ts';

export type Style = 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'cyan';
export type Paint = (style: Style, text: string) => string;

const codes: Readonly<Record<Style, readonly [number, number]>> = {
  bold: [1, 22],
  dim: [2, 22],
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
  cyan: [36, 39],
};

export function paintFor(environment: Pick<CliEnvironment, 'env'>, output: Output): Paint {
  const plain =
    output.isTTY !== true ||
    setting(environment, 'NO_COLOR') !== undefined ||
    setting(environment, 'TERM') === 'dumb';
  if (plain) return (_, text) => text;
  return (style, text) => {
    const [on, off] = codes[style];
    return `\u001B[${on}m${text}\u001B[${off}m`;
  };
}

const statusStyles: Readonly<Record<string, Style>> = {
  completed: 'green',
  approved: 'green',
  active: 'green',
  delivered: 'green',
  allow: 'green',
  failed: 'red',
  denied: 'red',
  deny: 'red',
  revoked: 'red',
  waiting: 'yellow',
  pending: 'yellow',
  ask: 'yellow',
  running: 'cyan',
  queued: 'cyan',
};

export function paintStatus(paint: Paint, status: string): string {
  const style = statusStyles[status];
  return style === undefined ? paint('dim', status) : paint(style, status);
}
