/** The page of the machine and the machine are the same, in both directions. */
import { readFileSync } from 'node:fs';
import { runStatuses } from '@relay/protocol';
import { describe, expect, it } from 'vitest';
import { callPhases, callSteps, callTable, stepOf } from './call.ts';
import { commands, runTable } from './machine.ts';

const root = new URL('../../../../', import.meta.url);
const page = readFileSync(new URL('docs/specs/run-machine.md', root), 'utf8');

/** The rows of the table whose head is given, each as its cells. */
function tableUnder(head: readonly string[]): string[][] {
  const lines = page.split('\n');
  const start = lines.indexOf(`| ${head.join(' | ')} |`);
  if (start === -1) throw new Error(`The page has no table of ${head.join(', ')}`);
  const rows = lines.slice(start + 2);
  const end = rows.findIndex((line) => !line.startsWith('|'));
  return rows.slice(0, end).map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}

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

  it('cites tests that exist, and at least one for each invariant that it calls shown', () => {
    const invariants = tableUnder(['number', 'invariant', 'shown by']).map((row) => row[2] ?? '');
    for (const shown of invariants) expect(shown).toMatch(/“.+”|^not yet covered$/);
    const cited = [...page.matchAll(/`([^`]+\.test\.ts)`: ((?:“[^”]+”(?:, )?)+)/g)];
    expect(cited.length).toBeGreaterThan(5);
    for (const [, file = '', names = ''] of cited) {
      const source = readFileSync(new URL(file, root), 'utf8');
      for (const [, name = ''] of names.matchAll(/“([^”]+)”/g)) {
        expect(source, `${file} has no test “${name}”`).toContain(`'${name}'`);
      }
    }
  });
});
