import { describe } from 'vitest';
import { connectionTests } from './connections.ts';
import { conversationTests } from './conversations.ts';
import { dueTests } from './due.ts';
import { fenceTests } from './fence.ts';
import type { OpenStore } from './fixtures.ts';
import { journalTests } from './journal.ts';
import { keyTests } from './keys.ts';
import { leaseTests } from './leases.ts';
import { mailTests } from './mail.ts';
import { relayTests } from './relays.ts';
import { reopenTests } from './reopen.ts';
import { runTests } from './runs.ts';
import { tenancyTests } from './tenancy.ts';
import { textTests } from './text.ts';

/** `open` gives an empty store each time. */
export function storeContract(name: string, open: () => Promise<OpenStore>): void {
  describe(`${name} keeps the contract of a store`, () => {
    describe('runs', () => runTests(open));
    describe('journal', () => journalTests(open));
    describe('fence', () => fenceTests(open));
    describe('relays', () => relayTests(open));
    describe('mail', () => mailTests(open));
    describe('leases', () => leaseTests(open));
    describe('due runs', () => dueTests(open));
    describe('conversations', () => conversationTests(open));
    describe('connections', () => connectionTests(open));
    describe('tenants and keys', () => keyTests(open));
    describe('tenancy', () => tenancyTests(open));
    describe('text', () => textTests(open));
    describe('reopening', () => reopenTests(open));
  });
}
