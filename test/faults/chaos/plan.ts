/** The table of faults: where each happens, how often in CI and in the long run, and how it is played. */
import { killDuringDeliveries } from './deliveries.ts';
import { fillDisk, mountSmallDisk, type SmallDisk } from './disk.ts';
import {
  type Chance,
  endConnections,
  killNodes,
  loseCommits,
  restartPostgres,
  stopNodes,
} from './faults.ts';
import { flipBytes } from './flips.ts';
import { raceDecisions } from './races.ts';
import { type During, runRound } from './round.ts';
import { Environment } from './environment.ts';

export type Setup = 'sqlite' | 'nodes' | 'disk';

/** A environment, and the disk under it where that plays a part. */
export interface OpenEnvironment {
  readonly environment: Environment;
  readonly disk?: SmallDisk;
  dispose(): Promise<void>;
}

export async function openEnvironment(setup: Setup): Promise<OpenEnvironment> {
  if (setup === 'disk') {
    const disk = mountSmallDisk();
    const environment = await Environment.sqlite({ dataDir: disk.dir });
    return {
      environment,
      disk,
      async dispose() {
        await environment.dispose();
        disk.dispose();
      },
    };
  }
  const environment = await (setup === 'sqlite' ? Environment.sqlite() : Environment.nodes());
  return { environment, dispose: () => environment.dispose() };
}

export interface Injection {
  /** Different for every injection that is made in an environment. */
  readonly name: string;
  readonly times: number;
  readonly chance: Chance;
}

export interface Outcome {
  /** How often the fault really happened. */
  readonly times: number;
  readonly runs: number;
  readonly succeeded: number;
  readonly violations: readonly string[];
}

export interface Row {
  readonly fault: string;
  readonly setup: Setup;
  readonly ci: number;
  readonly long: number;
  /** Only the store fails: every run must come to the end that it was meant to have. */
  readonly allSucceed?: boolean;
  /** As many at a time in the long run: what is done so far outlives an interruption. */
  readonly piece: number;
  play(staged: OpenEnvironment, injection: Injection): Promise<Outcome>;
}

type Disturbance = (
  during: During,
  injection: { times: number; chance: Chance; done: (count: number) => void },
) => Promise<void>;

/** A row whose fault hits runs that are going. */
function whileGoing(disturb: Disturbance, atOnce = 20): Row['play'] {
  return async ({ environment }, { name, times, chance }) => {
    let happened = 0;
    const result = await runRound(environment, {
      name,
      atOnce,
      disturb: (during) => disturb(during, { times, chance, done: (count) => (happened = count) }),
    });
    const { runs, succeeded, violations } = result;
    return { times: happened, runs, succeeded, violations };
  };
}

/** A row whose fault hits messages on their way to programs. */
const playDeliveries: Row['play'] = async ({ environment }, injection) => {
  const { times, violations } = await killDuringDeliveries(environment, injection);
  return { times, runs: 0, succeeded: 0, violations };
};

export const rows: readonly Row[] = [
  {
    fault: '`kill -9` of the server, 20 runs going',
    setup: 'sqlite',
    ci: 20,
    long: 1_000,
    piece: 25,
    play: whileGoing(killNodes),
  },
  {
    fault: 'bytes of checkpoint, snapshot or journal changed',
    setup: 'sqlite',
    ci: 50,
    long: 1_000,
    piece: 100,
    async play({ environment }, injection) {
      const { flips, violations } = await flipBytes(environment, injection);
      return { times: flips, runs: 0, succeeded: 0, violations };
    },
  },
  {
    fault: '`kill -9` of the server and of programs, messages on their way',
    setup: 'sqlite',
    ci: 6,
    long: 400,
    piece: 20,
    play: playDeliveries,
  },
  {
    fault: 'disk full, then freed',
    setup: 'disk',
    allSucceed: true,
    ci: 2,
    long: 20,
    piece: 5,
    async play({ environment, disk }, { name, times, chance }) {
      if (disk === undefined) throw new Error('This fault needs a disk of its own');
      let happened = 0;
      const done = (count: number) => (happened = count);
      const { runs, succeeded, violations } = await runRound(environment, {
        name,
        atOnce: 10,
        disturb: (during) => fillDisk(during, { times, chance, disk, done }),
      });
      return { times: happened, runs, succeeded, violations };
    },
  },
  {
    fault: '`kill -9` of one of three nodes, 20 runs going',
    setup: 'nodes',
    ci: 5,
    long: 300,
    piece: 15,
    play: whileGoing(killNodes),
  },
  {
    fault: '`kill -9` of one of three nodes and of programs, messages on their way',
    setup: 'nodes',
    ci: 4,
    long: 200,
    piece: 20,
    play: playDeliveries,
  },
  {
    fault: '`SIGSTOP` of a node for 0.5, 1.2 and 3 lease TTLs',
    setup: 'nodes',
    ci: 6,
    long: 100,
    piece: 10,
    play: whileGoing(stopNodes),
  },
  {
    fault: 'PostgreSQL restarted with `-m immediate`, connections cut',
    setup: 'nodes',
    allSucceed: true,
    ci: 3,
    long: 50,
    piece: 5,
    play: whileGoing(restartPostgres),
  },
  {
    fault: 'all connections ended with `pg_terminate_backend`, 100 runs going',
    setup: 'nodes',
    allSucceed: true,
    ci: 8,
    long: 100,
    piece: 10,
    play: whileGoing(endConnections, 100),
  },
  {
    fault: 'reply of a COMMIT lost',
    setup: 'nodes',
    allSucceed: true,
    ci: 20,
    long: 500,
    piece: 50,
    play: whileGoing(loseCommits),
  },
  {
    fault: '50 racing decisions on one approval',
    setup: 'nodes',
    ci: 20,
    long: 1_000,
    piece: 50,
    async play({ environment }, injection) {
      const { races, violations } = await raceDecisions(environment, injection);
      return { times: races, runs: races, succeeded: races, violations };
    },
  },
];
