/** What the long run came to, for a terminal and for the docs. */
export interface Tally {
  readonly wanted: number;
  times: number;
  runs: number;
  succeeded: number;
  violations: string[];
  ms: number;
}

export interface Report {
  readonly scale: number;
  readonly seed: number;
  readonly tallies: Record<string, Tally>;
  /** What else is to be known of the run, such as what the machine did meanwhile. */
  note?: string;
}

export interface Summary {
  readonly text: string;
  readonly page: string;
  /** No violation, nothing missing, and hardly a run that did not succeed. */
  readonly sound: boolean;
}

export function summaryOf({ scale, seed, tallies, note }: Report): Summary {
  const entries = Object.entries(tallies);
  const runs = sum(entries, ({ runs: each }) => each);
  const succeeded = sum(entries, ({ succeeded: each }) => each);
  const violations = entries.flatMap(([fault, tally]) =>
    tally.violations.map((what) => `${fault}: ${what}`),
  );
  const minutes = Math.round(sum(entries, ({ ms }) => ms) / 60_000);
  const complete = entries.every(([, { times, wanted }]) => times >= wanted);
  const share = runs === 0 ? 1 : succeeded / runs;
  const table = [
    '| fault | times | runs | succeeded | violations |',
    '|---|---:|---:|---:|---:|',
    ...entries.map(([fault, tally]) => {
      const { times, runs: all, succeeded: ended, violations: met } = tally;
      return `| ${fault} | ${times} | ${all || '–'} | ${all === 0 ? '–' : ended} | ${met.length} |`;
    }),
  ];
  const total = `${runs} runs, ${(share * 100).toFixed(2)} % succeeded, ${violations.length} violations, ${minutes} minutes, scale ${scale}, seed ${seed}.${note === undefined ? '' : ` ${note}`}`;
  const text = [...table, '', total, ...violations.slice(0, 50)].join('\n');
  return {
    text,
    page: pageOf(table, total, scale),
    sound: violations.length === 0 && complete && share >= 0.95,
  };
}

function sum(entries: readonly [string, Tally][], of: (tally: Tally) => number): number {
  return entries.reduce((total, [, tally]) => total + of(tally), 0);
}

function pageOf(table: readonly string[], total: string, scale: number): string {
  const size = scale === 1 ? '' : ` This one was short: ${scale} of the full size.`;
  return `# Faults

<!-- Written by \`npm run faults -- --write\`. -->

What the last long run came to.${size} Real servers run under an oracle in processes of its own: a tool server that writes each call down before it answers, a scripted model, and a client that keeps every frame and every acknowledgement. After every round each invariant of \`test/faults/chaos/invariants.ts\` is checked against what they wrote down.

${table.join('\n')}

${total}

\`npm run test:faults\` runs the same faults at a smaller size (\`test/faults/chaos.test.ts\`); \`npm run mutants\` removes one safeguard after the other and shows that the tests notice.
`;
}
