/** The suites that every store and every driver passes, whatever lies beneath. */
export { driverContract } from './driver-contract.ts';
export type { OpenDriver } from './driver-contract.ts';
export { decisionOn, waitingRun } from './fixtures.ts';
export type { OpenStore } from './fixtures.ts';
export { storeContract } from './store-contract.ts';
