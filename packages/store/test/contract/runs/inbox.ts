import { uuidv7 } from 'uuidv7';
import { expect, test } from 'vitest';
import {
  cancelCommand,
  ending,
  messageCommand,
  newRun,
  noon,
  step,
  useStore,
} from '../fixtures.ts';
import type { Open } from '../fixtures.ts';

export function inboxTests(open: Open): void {
  const { tenant: newTenant, system } = useStore(open);

  test('commands are read in the order in which they were posted', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    const queuedCommands = ['c', 'a', 'b'].map((reason) => cancelCommand(reason)).toReversed();
    for (const queued of queuedCommands)
      expect(await tenant.postRunCommand(run.id, queued)).toBe(true);
    expect(await tenant.readInbox(run.id)).toEqual(queuedCommands);
    await tenant.append(step(run, { consumeCommands: [queuedCommands[0]?.id ?? ''] }));
    const late = cancelCommand('late');
    await tenant.postRunCommand(run.id, late);
    expect(await tenant.readInbox(run.id)).toEqual([queuedCommands[1], queuedCommands[2], late]);
  });

  test('reading the inbox does not consume it', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    await tenant.postRunCommand(run.id, cancelCommand('stop'));
    expect(await tenant.readInbox(run.id)).toEqual(await tenant.readInbox(run.id));
  });

  test('a step consumes the commands that it names and keeps the rest', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    const queuedCommands = [cancelCommand('1'), cancelCommand('2'), cancelCommand('3')];
    for (const queued of queuedCommands) await tenant.postRunCommand(run.id, queued);
    const consumeCommands = [queuedCommands[0]?.id ?? '', queuedCommands[2]?.id ?? '', uuidv7()];
    expect(await tenant.append(step(run, { consumeCommands }))).toBe('committed');
    expect(await tenant.readInbox(run.id)).toEqual([queuedCommands[1]]);
  });

  test('a step cannot consume the commands of another run', async () => {
    const tenant = newTenant();
    const [run, other] = [await newRun(tenant), await newRun(tenant)];
    const queued = cancelCommand('stop');
    await tenant.postRunCommand(other.id, queued);
    await tenant.append(step(run, { consumeCommands: [queued.id] }));
    expect(await tenant.readInbox(other.id)).toEqual([queued]);
  });

  test('the same command posted twice is stored once', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    const queued = cancelCommand('stop');
    expect(await tenant.postRunCommand(run.id, queued)).toBe(true);
    expect(await tenant.postRunCommand(run.id, queued)).toBe(true);
    expect(await tenant.readInbox(run.id)).toEqual([queued]);
  });

  test('no command is stored for a run that has ended or does not exist', async () => {
    const tenant = newTenant();
    for (const status of ['completed', 'failed', 'canceled'] as const) {
      const run = await newRun(tenant);
      await tenant.append(ending(run, { progress: { status } }));
      expect(await tenant.postRunCommand(run.id, cancelCommand('late'))).toBe(false);
      expect(await tenant.readInbox(run.id)).toEqual([]);
    }
    expect(await tenant.postRunCommand(uuidv7(), cancelCommand('lost'))).toBe(false);
  });

  test('a run that has not ended accepts commands in every status', async () => {
    const tenant = newTenant();
    for (const status of ['queued', 'running', 'waiting'] as const) {
      const run = await newRun(tenant, { progress: { status } });
      expect(await tenant.postRunCommand(run.id, cancelCommand('stop'))).toBe(true);
    }
  });

  test('of some runs those with commands are found, each once', async () => {
    const runs = await Promise.all(Array.from({ length: 250 }, () => newRun(newTenant())));
    const [first, second, other] = [runs[0], runs[249], runs[120]];
    if (first === undefined || second === undefined || other === undefined) throw new Error('none');
    const posted = cancelCommand('1');
    await first.tenant.postRunCommand(first.id, posted);
    for (const run of [first, second, other]) {
      await run.tenant.postRunCommand(run.id, cancelCommand('2'));
    }
    const asked = runs.filter((run) => run !== other).map(({ id }) => id);
    const found = async () => (await system().runsWithCommands(asked)).toSorted();
    expect(await found()).toEqual([first.id, second.id].toSorted());
    await first.tenant.append(step(first, { consumeCommands: [posted.id] }));
    expect(await found()).toEqual([first.id, second.id].toSorted());
    await second.tenant.append(ending(second));
    expect(await found()).toEqual([first.id]);
    expect(await system().runsWithCommands([])).toEqual([]);
  });

  test('the end of a run keeps the messages that it did not take, in their order', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    const messages = [messageCommand('m2'), messageCommand('m1'), messageCommand('m3')];
    for (const queued of messages) await tenant.postRunCommand(run.id, queued);
    await tenant.postRunCommand(run.id, { id: uuidv7(), command: { kind: 'pause' } });
    await tenant.append(ending(run, { consumeCommands: [messages[1]?.id ?? ''] }));
    expect(await tenant.readInbox(run.id)).toEqual([messages[0], messages[2]]);
    expect(await tenant.postRunCommand(run.id, messageCommand('late'))).toBe(false);
    const due = await system().dueRuns(noon, 1_000);
    expect(due.map(({ runId }) => runId)).not.toContain(run.id);
  });

  test('the end of a run deletes its inbox', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    await tenant.postRunCommand(run.id, cancelCommand('1'));
    await tenant.append(ending(run));
    expect(await tenant.readInbox(run.id)).toEqual([]);
  });
}
