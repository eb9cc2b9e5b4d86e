/** Crashes in runs of a single agent. */
import { crashEverywhere } from './matrix.ts';
import { scenarios } from './scenarios.ts';

crashEverywhere(scenarios);
