import { describe } from 'vitest';
import { censusTests } from './census.ts';
import { connectionTests } from './connections.ts';
import { conversationTests } from './conversations.ts';
import { credentialTests } from './credentials.ts';
import { dueTests } from './due.ts';
import { fenceTests } from './fence.ts';
import type { OpenStore } from './fixtures.ts';
import { grantTests } from './grants.ts';
import { idempotencyTests } from './idempotency.ts';
import { journalTests } from './journal.ts';
import { keyTests } from './keys.ts';
import { leaseTests } from './leases.ts';
import { mailTests } from './mail.ts';
import { noteTests } from './notes.ts';
import { relayListTests } from './relay-lists.ts';
import { relayTests } from './relays.ts';
import { reopenTests } from './reopen.ts';
import { runFilterTests } from './run-filters.ts';
import { runListTests } from './run-lists.ts';
import { runTests } from './runs.ts';
import { tenancyTests } from './tenancy.ts';
import { tenantTests } from './tenants.ts';
import { textTests } from './text.ts';
import { usageTests } from './usage.ts';
import { workflowTests } from './workflows.ts';

/** `open` gives an empty store each time. */
export function storeContract(name: string, open: () => Promise<OpenStore>): void {
  describe(`${name} keeps the contract of a store`, () => {
    describe('runs', () => runTests(open));
    describe('journal', () => journalTests(open));
    describe('fence', () => fenceTests(open));
    describe('relays', () => relayTests(open));
    describe('grants', () => grantTests(open));
    describe('mail', () => mailTests(open));
    describe('leases', () => leaseTests(open));
    describe('due runs', () => dueTests(open));
    describe('census', () => censusTests(open));
    describe('conversations', () => conversationTests(open));
    describe('connections', () => connectionTests(open));
    describe('idempotency', () => idempotencyTests(open));
    describe('lists of runs', () => runListTests(open));
    describe('lists of runs, filtered', () => runFilterTests(open));
    describe('lists of relays', () => relayListTests(open));
    describe('workflows', () => workflowTests(open));
    describe('usage', () => usageTests(open));
    describe('tenants', () => tenantTests(open));
    describe('keys', () => keyTests(open));
    describe('credentials', () => credentialTests(open));
    describe('notes', () => noteTests(open));
    describe('tenancy', () => tenancyTests(open));
    describe('text', () => textTests(open));
    describe('reopening', () => reopenTests(open));
  });
}
