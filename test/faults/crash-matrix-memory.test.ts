/** Crashes in runs that recall what was remembered, and leave something behind. */
import { crashEverywhere } from './matrix.ts';
import { memoryScenarios } from './memory-scenarios.ts';

crashEverywhere(memoryScenarios);
