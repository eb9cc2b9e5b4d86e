import type { PatternFault } from '@relay/core';
import { RelayError } from '@relay/protocol';

/** Rules are refused when they are written, never when they are needed. */
export function refuseFaults(details: readonly PatternFault[]): void {
  const [first] = details;
  if (first === undefined) return;
  throw new RelayError('invalid_pattern', `${first.path}: ${first.message}`, { details });
}
