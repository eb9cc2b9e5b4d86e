/** The table of faults: where each happens, how often in CI and in the long run, and how it is played. */
import { fillDisk, mountSmallDisk, type SmallDisk } from './disk.ts';
import { type Chance, killNodes, loseCommits, restartPostgres, stopNodes } from './faults.ts';
import { flipBytes } from './flips.ts';
import { raceDecisions } from './races.ts';
import { type During, playRound } from './round.ts';
import { Stage } from './stage.ts';

export type LoopFixture = 'sqlite' | 'nodes' | 'disk';

/** A stage, and the disk under it where that plays a part. */
export interface Staged {
  readonly stage: Stage;
  readonly disk?: SmallDisk;
  dispose(): Promise<void>;
}

export async function openStage(fixture: LoopFixture): Promise<Staged> {
  if (fixture === 'disk') {
    const disk = mountSmallDisk();
    const stage = await Stage.sqlite({ dataDir: disk.dir });
    return {
      stage,
      disk,
      async dispose() {
        await stage.dispose();
        disk.dispose();
      },
    };
  }
  const stage = await (fixture === 'sqlite' ? Stage.sqlite() : Stage.nodes());
  return { stage, dispose: () => stage.dispose() };
}

export interface Dose {
  /** Different for every dose that is given on a stage. */
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
  readonly fixture: LoopFixture;
  readonly ci: number;
  readonly long: number;
  /** As many at a time in the long run: what is done so far outlives an interruption. */
  readonly piece: number;
  play(staged: Staged, dose: Dose): Promise<Outcome>;
}

type Disturbance = (
  during: During,
  doses: { times: number; chance: Chance; done: (count: number) => void },
) => Promise<void>;

/** A row whose fault hits twenty runs that are going. */
function whileGoing(disturb: Disturbance): Row['play'] {
  return async ({ stage }, { name, times, chance }) => {
    let happened = 0;
    const result = await playRound(stage, {
      name,
      disturb: (during) => disturb(during, { times, chance, done: (count) => (happened = count) }),
    });
    const { runs, succeeded, violations } = result;
    return { times: happened, runs, succeeded, violations };
  };
}

export const rows: readonly Row[] = [
  {
    fault: '`kill -9` of the server, 20 runs going',
    fixture: 'sqlite',
    ci: 20,
    long: 1_000,
    piece: 25,
    play: whileGoing(killNodes),
  },
  {
    fault: 'bytes of checkpoint, snapshot or journal changed',
    fixture: 'sqlite',
    ci: 50,
    long: 1_000,
    piece: 100,
    async play({ stage }, dose) {
      const { flips, violations } = await flipBytes(stage, dose);
      return { times: flips, runs: 0, succeeded: 0, violations };
    },
  },
  {
    fault: 'disk full, then freed',
    fixture: 'disk',
    ci: 2,
    long: 20,
    piece: 5,
    async play({ stage, disk }, { name, times, chance }) {
      if (disk === undefined) throw new Error('This fault needs a disk of its own');
      let happened = 0;
      const done = (count: number) => (happened = count);
      const { runs, succeeded, violations } = await playRound(stage, {
        name,
        atOnce: 10,
        disturb: (during) => fillDisk(during, { times, chance, disk, done }),
      });
      return { times: happened, runs, succeeded, violations };
    },
  },
  {
    fault: '`kill -9` of one of three nodes, 20 runs going',
    fixture: 'nodes',
    ci: 5,
    long: 300,
    piece: 15,
    play: whileGoing(killNodes),
  },
  {
    fault: '`SIGSTOP` of a node for 0.5, 1.2 and 3 lease TTLs',
    fixture: 'nodes',
    ci: 6,
    long: 100,
    piece: 10,
    play: whileGoing(stopNodes),
  },
  {
    fault: 'PostgreSQL restarted with `-m immediate`, connections cut',
    fixture: 'nodes',
    ci: 3,
    long: 50,
    piece: 5,
    play: whileGoing(restartPostgres),
  },
  {
    fault: 'reply of a COMMIT lost',
    fixture: 'nodes',
    ci: 20,
    long: 500,
    piece: 50,
    play: whileGoing(loseCommits),
  },
  {
    fault: '50 racing decisions on one approval',
    fixture: 'nodes',
    ci: 20,
    long: 1_000,
    piece: 50,
    async play({ stage }, dose) {
      const { races, violations } = await raceDecisions(stage, dose);
      return { times: races, runs: races, succeeded: races, violations };
    },
  },
];
