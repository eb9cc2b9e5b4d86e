/** The specification page and the state machine agree, in both directions. */
import { agentEnds, catalogue, limitNames, runStatuses } from '@relay/protocol';
import { describe, expect, it } from 'vitest';
import { callPhases, callSteps, callTable, stepOf } from '../../src/run/state/call.ts';
import { depthLimit, subAgentLimit } from '../../src/run/agents/limits.ts';
import { commands, runTable } from '../../src/run/state/machine.ts';
import { SpecPage } from '../support/spec-page.ts';

const page = new SpecPage('run-machine');
const tableUnder = page.tableUnder.bind(page);

function cell(next: string): string {
  return next === 'refused' ? '–' : next;
}

describe('the page of the run machine', () => {
  it('has the table of the run, cell by cell', () => {
    expect(tableUnder(['status', ...commands])).toEqual(
      runStatuses.map((status) => [
        status,
        ...commands.map((command) => cell(runTable[status][command])),
      ]),
    );
  });

  it('has the table of a call, cell by cell', () => {
    expect(tableUnder(['phase', ...callSteps])).toEqual(
      callPhases.map((phase) => [phase, ...callSteps.map((step) => cell(callTable[phase][step]))]),
    );
  });

  it('says which step each event of a call is', () => {
    const told = tableUnder(['event', 'step']).flatMap(([events = '', step = '']) =>
      events.split(', ').map((event) => [event.replaceAll('`', ''), step]),
    );
    expect(Object.fromEntries(told)).toEqual(stepOf);
  });

  it('explains every status and every phase', () => {
    expect(tableUnder(['status', 'what it means']).map(([name]) => name)).toEqual([...runStatuses]);
    expect(tableUnder(['phase', 'what it means']).map(([name]) => name)).toEqual([...callPhases]);
  });

  it('explains every limit, every way for a result, every end of an agent and of a turn', () => {
    const first = (...head: string[]) => tableUnder(head).map(([name]) => name);
    expect(first('limit', 'is reached')).toEqual([...limitNames]);
    expect(first('reason', 'what it means')).toEqual([...agentEnds]);
    const { via } = catalogue['tool.started'].schema.shape;
    expect(first('via', 'who settles it')).toEqual(['–', ...via.unwrap().options]);
    const { reason } = catalogue['turn.discarded'].schema.shape;
    expect(first('discarded because of', 'what happened')).toEqual([...reason.options]);
  });

  it('states the default limits', () => {
    const rows = Object.fromEntries(tableUnder(['limit', 'is reached']));
    expect(rows['depth']).toContain(`default ${depthLimit({})}`);
    expect(rows['subAgents']).toContain(`default ${subAgentLimit({})}`);
  });

  it('cites tests that exist, and at least one for each invariant and rule that it calls shown', () => {
    const invariants = tableUnder(['number', 'invariant', 'shown by']).map((row) => row[2] ?? '');
    const rules = tableUnder(['rule', 'shown by']).map((row) => row[1] ?? '');
    expect(rules.length).toBeGreaterThan(10);
    for (const shown of rules) expect(shown).toMatch(/“.+”/);
    for (const shown of invariants) expect(shown).toMatch(/“.+”|^not yet covered$/);
    const { count, wrong } = page.citations();
    expect(wrong).toEqual([]);
    expect(count).toBeGreaterThan(5);
  });
});
