/** Medians of interleaved rounds: what slows the machine down slows both sides down. */

export interface Contender<Result = number> {
  readonly name: string;
  run(): Promise<Result>;
}

export interface Comparison {
  readonly name: string;
  readonly median: number;
  /** Against the first contender, the baseline. */
  readonly ratio: number;
}

/** What a benchmark may be asked for besides the number of rounds. */
export interface BenchOptions {
  /** The only row to measure. */
  readonly only?: string;
  /** A folder for CPU profiles of Relay's process. */
  readonly profile?: string;
  /** Measure the OpenAI Agents SDK too. */
  readonly peer?: boolean;
}

/** `--only` names no row of the benchmark. */
export class UnknownRow extends Error {}

/** The rows of a benchmark that `--only` names, or all of them. */
export function selectRows<Row>(
  bench: string,
  rows: Readonly<Record<string, Row>>,
  only: string | undefined,
): Row[] {
  if (only === undefined) return Object.values(rows);
  if (!Object.hasOwn(rows, only)) {
    throw new UnknownRow(`${bench} has no row ${only}; it has ${Object.keys(rows).join(', ')}`);
  }
  return Object.entries(rows).flatMap(([name, row]) => (name === only ? [row] : []));
}

/** The results of each contender, in the order of the contenders. */
export async function interleave<Result>(
  contenders: readonly Contender<Result>[],
  rounds: number,
): Promise<Result[][]> {
  const results = contenders.map((): Result[] => []);
  for (let round = 0; round < rounds; round += 1) {
    for (const [index, contender] of contenders.entries()) {
      results[index]?.push(await contender.run());
    }
  }
  return results;
}

export async function compare(
  contenders: readonly Contender[],
  rounds: number,
): Promise<Comparison[]> {
  return comparison(contenders, await interleave(contenders, rounds));
}

export function comparison(
  contenders: readonly Pick<Contender, 'name'>[],
  results: readonly (readonly number[])[],
): Comparison[] {
  const baseline = median(results[0] ?? []);
  return contenders.map(({ name }, index) => {
    const own = median(results[index] ?? []);
    return { name, median: own, ratio: own / baseline };
  });
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

export function quantile(values: readonly number[], q: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] ?? Number.NaN;
}

export function show(title: string, rows: readonly Comparison[], unit: string): void {
  console.log(`\n${title}`);
  for (const { name, median: value, ratio } of rows) {
    const figure = value >= 100 ? Math.round(value).toLocaleString('en') : value.toFixed(2);
    console.log(`  ${name.padEnd(34)} ${figure.padStart(12)} ${unit}   ${ratio.toFixed(2)}`);
  }
}
