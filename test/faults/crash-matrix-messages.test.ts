/** Crashes in runs that people talk to while they work: each message is taken once, or left. */
import { crashEverywhere } from './matrix.ts';
import { messageScenarios } from './message-scenarios.ts';

crashEverywhere(messageScenarios);
