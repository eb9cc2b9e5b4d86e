/** Crashes in runs that hold several agents, or more than a window takes. */
import { crashEverywhere } from './matrix.ts';
import { treeScenarios } from './tree-scenarios.ts';

crashEverywhere(treeScenarios);
