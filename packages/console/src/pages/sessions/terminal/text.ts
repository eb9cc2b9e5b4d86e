/** What goes to and comes from a terminal. */
import type { StoredSessionEvent } from '@relay/sdk';

/** What a terminal sends by itself: reports of its cursor, colours, modes and version. */
export function withoutAnswers(keys: string): string {
  return keys.replaceAll(
    // oxlint-disable-next-line no-control-regex
    /\x1b\[[?>]?[\d;]*[cnR]|\x1b\[\??[\d;]*\$y|\x1b[\]P][^\x07\x1b]*(?:\x07|\x1b\\)/g,
    '',
  );
}

const reset = '\x1bc';

/** More is not kept: the server paints the screen again before that. */
const maxKeptChars = 512 * 1024;

/** What was output since the last reset; empty if that is not known. */
export function sinceReset(before: string, output: string): string {
  const index = output.lastIndexOf(reset);
  if (index >= 0) return output.slice(index);
  const isKept = before !== '' && before.length + output.length <= maxKeptChars;
  return isKept ? before + output : '';
}

/**
 * The events that show the terminal as it is: those since its last reset, after which the server paints the
 * whole screen. Without one, all of them, which are the whole terminal only if they begin with its start.
 */
export function beginningOf(events: readonly StoredSessionEvent[]): {
  readonly events: readonly StoredSessionEvent[];
  readonly isWhole: boolean;
} {
  const index = events.findLastIndex(
    (event) => event.type === 'terminal.output' && event.text.includes(reset),
  );
  // The size of the screen is in an event of its own.
  const size = events
    .slice(0, Math.max(0, index))
    .findLast(({ type }) => type === 'terminal.screen');
  const shown = index < 0 ? events : events.slice(index);
  return {
    events: size === undefined ? shown : [size, ...shown],
    isWhole: index >= 0 || events[0]?.seq === 1,
  };
}
