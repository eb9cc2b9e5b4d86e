/** What the oracle's processes wrote down, read back. */
import { existsSync, readFileSync, truncateSync } from 'node:fs';
import type { StoredEvent } from '@relay/protocol';

export const scenarioNames = [
  'plain',
  'cancel',
  'charge',
  'look',
  'pay',
  'two',
  'once',
  'client',
  'handoff',
] as const;
export type Scenario = (typeof scenarioNames)[number];

/** One line of the tool server: proof that the tool ran. */
export interface ToolRan {
  readonly at: number;
  readonly tool: string;
  readonly toolCallId: string;
  readonly idempotencyKey: string;
  readonly input: unknown;
}

interface Line {
  readonly at: number;
  readonly runId: string;
}

/** One line of the client. */
export type Noted =
  | (Line & { kind: 'frame'; seq: number; data: Readonly<Record<string, unknown>> })
  | (Line & { kind: 'ack'; of: 'run'; tag: string; scenario: Scenario })
  | (Line & { kind: 'ack'; of: 'decision'; approvalId: string; approved: boolean })
  | (Line & { kind: 'ack'; of: 'cancel' })
  | (Line & { kind: 'ack'; of: 'result'; call: string; output: unknown })
  | (Line & { kind: 'ack'; of: 'credential'; provider: string; answer: { last4: string } })
  | (Line & { kind: 'refused'; path: string; status: number; body: string })
  | (Line & { kind: 'trouble'; of?: string; status?: number; text?: string });

/** A run's row, as the database has it. */
export interface RunRow {
  readonly id: string;
  readonly status: string;
  readonly epoch: number;
  readonly last_seq: number;
}

/** All that is known at the end of a round. */
export interface Evidence {
  readonly ran: readonly ToolRan[];
  readonly noted: readonly Noted[];
  /** By run, as the API shows them. */
  readonly journals: ReadonlyMap<string, readonly StoredEvent[]>;
  readonly rows: readonly RunRow[];
  /** The same, at earlier moments. */
  readonly earlier: readonly (readonly RunRow[])[];
  /** Runs that wait, and for nothing. */
  readonly forgotten: readonly string[];
  readonly credentials: readonly { provider: string; last4: string }[];
  /** What SQLite says of its file; on PostgreSQL, nothing. */
  readonly integrity: readonly string[];
  /** Writes that the database saw of a node which did not hold the run. */
  readonly strangeWrites: readonly string[];
  readonly secrets: readonly string[];
  /** Where a secret must not be: what was logged and stored. */
  readonly places: readonly { name: string; text: string }[];
}

export function readLines<Entry>(path: string): Entry[] {
  return wholeLines(path)
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Entry);
}

/** Before a program that was killed continues its file: the kill may have cut its last line. */
export function dropCutLine(path: string): void {
  if (existsSync(path)) truncateSync(path, Buffer.byteLength(wholeLines(path)));
}

/** Without a line that is being written. */
function wholeLines(path: string): string {
  try {
    const text = readFileSync(path, 'utf8');
    return text.slice(0, text.lastIndexOf('\n') + 1);
  } catch {
    return '';
  }
}

type Ack<Of> = Extract<Noted, { kind: 'ack'; of: Of }>;

export function acks<Of extends Extract<Noted, { kind: 'ack' }>['of']>(
  noted: readonly Noted[],
  of: Of,
): Ack<Of>[] {
  return noted.filter((line): line is Ack<Of> => line.kind === 'ack' && line.of === of);
}
