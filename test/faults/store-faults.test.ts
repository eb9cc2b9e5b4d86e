/** Every read and every write of a run fails once: the run is released, resumed and completed. */
import { allStores } from '../loop/stores.ts';
import { failEverywhere } from './matrix.ts';
import { memoryScenarios } from './memory-scenarios.ts';
import { messageScenarios } from './message-scenarios.ts';
import { scenarios } from './scenarios.ts';
import { treeScenarios } from './tree-scenarios.ts';

failEverywhere(
  allStores.filter(({ name }) => name === 'memory'),
  { ...scenarios, ...memoryScenarios, ...treeScenarios, ...messageScenarios },
);

const several = ['two turns with an approval each', 'client tool'];
failEverywhere(
  allStores.filter(({ name }) => name !== 'memory'),
  Object.fromEntries(Object.entries(scenarios).filter(([name]) => several.includes(name))),
);
