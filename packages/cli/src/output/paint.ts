/** Colours, for terminals only. */
import { styleText } from 'node:util';
import { type CliEnvironment, type Output, setting } from '../environment.ts';

export type Style =
  | 'bold'
  | 'dim'
  | 'italic'
  | 'underline'
  | 'strikethrough'
  | 'red'
  | 'green'
  | 'yellow'
  | 'cyan'
  | 'magenta'
  | 'blue';
export type Paint = (style: Style, text: string) => string;

/** Whether the output is a terminal that shows styles and moves its cursor. */
export function isStyled(environment: Pick<CliEnvironment, 'env'>, output: Output): boolean {
  return (
    output.isTTY === true &&
    setting(environment, 'NO_COLOR') === undefined &&
    setting(environment, 'TERM') !== 'dumb'
  );
}

export function paintFor(environment: Pick<CliEnvironment, 'env'>, output: Output): Paint {
  if (!isStyled(environment, output)) return (_, text) => text;
  return (style, text) => styleText(style, text, { validateStream: false });
}

const statusStyles: Readonly<Record<string, Style>> = {
  completed: 'green',
  approved: 'green',
  active: 'green',
  delivered: 'green',
  consumed: 'green',
  allow: 'green',
  failed: 'red',
  denied: 'red',
  deny: 'red',
  revoked: 'red',
  waiting: 'yellow',
  blocked: 'yellow',
  paused: 'yellow',
  deferred: 'yellow',
  pending: 'yellow',
  ask: 'yellow',
  running: 'cyan',
  queued: 'cyan',
  accepted: 'cyan',
};

export function paintStatus(paint: Paint, status: string): string {
  const style = statusStyles[status];
  return style === undefined ? paint('dim', status) : paint(style, status);
}
