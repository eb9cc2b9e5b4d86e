/** Every scenario once more, read back from the journal after each step that it comes further by. */
import { dieAlways } from './matrix.ts';
import { memoryScenarios } from './memory-scenarios.ts';
import { messageScenarios } from './message-scenarios.ts';
import { scenarios } from './scenarios.ts';
import { treeScenarios } from './tree-scenarios.ts';

dieAlways({ ...scenarios, ...treeScenarios, ...memoryScenarios, ...messageScenarios });
