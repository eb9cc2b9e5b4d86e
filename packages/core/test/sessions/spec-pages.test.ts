/** The specification pages and the machines of sessions agree, in both directions. */
import { agentStatuses, deliveryModes } from '@relay/protocol';
import { describe, expect, it } from 'vitest';
import {
  deliveryInputs,
  deliveryPhases,
  deliveryTable,
} from '../../src/sessions/delivery-machine.ts';
import { boundaries, deferralReasons, entering } from '../../src/sessions/modes.ts';
import { sessionInputs, sessionTable } from '../../src/sessions/session-machine.ts';
import { connections, lifecycles, turns } from '../../src/sessions/state.ts';
import { SpecPage } from '../support/spec-page.ts';

function firstCells(page: SpecPage, ...head: string[]): (string | undefined)[] {
  return page.tableUnder(head).map(([name]) => name);
}

describe('the page of the session machine', () => {
  const page = new SpecPage('session-machine');

  it('has the table of the session, cell by cell', () => {
    expect(page.tableUnder(['input', ...agentStatuses])).toEqual(
      sessionInputs.map((input) => [
        input,
        ...agentStatuses.map((status) => sessionTable[status][input].join(' / ') || '–'),
      ]),
    );
  });

  it('explains every status, every input and every part', () => {
    expect(firstCells(page, 'status', 'what it means')).toEqual([...agentStatuses]);
    expect(firstCells(page, 'input', 'what it means')).toEqual([...sessionInputs]);
    expect(page.tableUnder(['part', 'values'])).toEqual([
      ['lifecycle', lifecycles.join(', ')],
      ['turn', turns.join(', ')],
      ['connection', connections.join(', ')],
    ]);
  });

  it('cites tests that exist, and at least one for each rule', () => {
    for (const [, shown] of page.tableUnder(['rule', 'shown by'])) expect(shown).toMatch(/“.+”/);
    const { count, wrong } = page.citations();
    expect(wrong).toEqual([]);
    expect(count).toBeGreaterThan(10);
  });
});

describe('the page of the delivery machine', () => {
  const page = new SpecPage('delivery-machine');

  it('has the table of a delivery, cell by cell', () => {
    expect(page.tableUnder(['phase', ...deliveryInputs])).toEqual(
      deliveryPhases.map((phase) => [
        phase,
        ...deliveryInputs.map((input) => deliveryTable[phase][input].replace('refused', '–')),
      ]),
    );
  });

  it('explains every phase, every input, every mode and every reason', () => {
    expect(firstCells(page, 'phase', 'what it means')).toEqual([...deliveryPhases]);
    expect(firstCells(page, 'input', 'what it means')).toEqual([...deliveryInputs]);
    expect(firstCells(page, 'mode', 'while the session is working')).toEqual([...deliveryModes]);
    expect(firstCells(page, 'reason', 'deferred because')).toEqual([...deferralReasons]);
  });

  it('says which modes enter at each boundary', () => {
    const rows = boundaries.map((boundary) => {
      const pending = deliveryModes.map((mode, position) => {
        const status = boundary === 'flush' ? 'accepted' : 'deferred';
        return { id: mode, mode, position, status } as const;
      });
      const modes = entering(pending, boundary, 0).map(({ mode }) => mode);
      const all = modes.length === deliveryModes.length;
      return [boundary, all ? 'all; `manual` only after a flush' : modes.join(', ')];
    });
    expect(page.tableUnder(['boundary', 'modes that enter'])).toEqual(rows);
  });

  it('cites tests that exist, and at least one for each invariant and rule', () => {
    const invariants = page.tableUnder(['number', 'invariant', 'shown by']).map((row) => row[2]);
    const rules = page.tableUnder(['rule', 'shown by']).map((row) => row[1]);
    for (const shown of [...invariants, ...rules]) expect(shown).toMatch(/“.+”/);
    const { count, wrong } = page.citations();
    expect(wrong).toEqual([]);
    expect(count).toBeGreaterThan(8);
  });
});
