/** What every agent is asked to do under Relay; the differences between them are in `agents.ts`. */
import type { DeliveryMode } from '@relay/protocol';
import type { Session } from '@relay/sdk';
import { expect } from 'vitest';
import type { TestedAgent } from './agents.ts';
import type { Stage } from './stage.ts';

interface Scene {
  readonly stage: Stage;
  readonly agent: TestedAgent;
  /** A new session of the agent. */
  readonly session: Session;
}

export interface Scenario {
  readonly name: string;
  play(scene: Scene): Promise<void>;
}

/** Appends a line, so that a second execution is visible. */
const append = (file: string) => `echo x >> ${file}`;

/** A command that runs until the test lets it end. */
const untilFile = 'echo started >> log; until [ -e go ]; do sleep 0.1; done; echo ended >> log';

export const scenarios: readonly Scenario[] = [
  {
    name: 'answers a message, and its transcript and usage are reported',
    async play({ stage, session }) {
      const message = await stage.send(session, stage.models.script({ say: 'Good morning' }));
      await stage.consumed(message);
      await stage.idle(session);
      const events = await stage.events(session);
      const said = events.flatMap((event) =>
        event.type === 'transcript.chunk' && event.chunk.role === 'agent'
          ? event.chunk.content
          : [],
      );
      expect(said.join('')).toContain('Good morning');
      expect(events.some(({ type }) => type === 'usage.updated')).toBe(true);
    },
  },
  {
    name: 'asks for a command at /v1/approvals, and runs it once when it is approved',
    async play({ stage, agent, session }) {
      const { client, models } = stage;
      await stage.send(
        session,
        models.script({ call: agent.shell(append('log')) }, { say: 'Ran' }),
      );
      const approval = await stage.pending(session);
      expect(approval).toMatchObject({ tool: 'bash', params: { command: append('log') } });
      await stage.until(async () => (await client.sessions.get(session.id)).status === 'waiting');
      expect(stage.file(session, 'log')).toBeUndefined();
      await client.approvals.approve(approval.id);
      await client.approvals.approve(approval.id);
      await stage.idle(session);
      expect(stage.file(session, 'log')).toBe('x\n');
      expect(await stage.approvals(session)).toHaveLength(1);
    },
  },
  {
    name: 'asks for an edit with its difference, and reports it when it is made',
    async play({ stage, agent, session }) {
      const { client, models } = stage;
      const path = stage.path(session, 'notes.txt');
      await stage.send(
        session,
        models.script({ call: agent.write(path, 'hello') }, { say: 'Written' }),
      );
      const approval = await stage.pending(session);
      expect(approval.tool).toBe('patch');
      expect(JSON.stringify(approval.params)).toContain('hello');
      expect(stage.file(session, 'notes.txt')).toBeUndefined();
      await client.approvals.approve(approval.id);
      await stage.idle(session);
      expect(stage.file(session, 'notes.txt')?.trim()).toBe('hello');
      const changes = (await stage.events(session)).filter(({ type }) => type === 'file.changed');
      expect(changes).toHaveLength(1);
    },
  },
  {
    name: 'does not run a denied command, and reads the reason',
    async play({ stage, agent, session }) {
      const { client, models } = stage;
      const reason = 'Not on a Friday';
      await stage.send(
        session,
        models.script({ call: agent.shell(append('log')) }, { say: 'Well' }),
      );
      await client.approvals.deny((await stage.pending(session)).id, reason);
      await stage.idle(session);
      const next = await stage.send(session, models.script({ say: 'Understood' }));
      await stage.consumed(next);
      await stage.idle(session);
      expect(stage.file(session, 'log')).toBeUndefined();
      expect(models.readings(reason)).not.toHaveLength(0);
      expect((await stage.approvals(session)).map(({ status }) => status)).toEqual(['denied']);
    },
  },
  {
    name: 'is not asked again for an equal command after "always"',
    async play({ stage, agent, session }) {
      const { client, models } = stage;
      const text = () => models.script({ call: agent.shell(append('always')) }, { say: 'Ran' });
      await stage.send(session, text());
      await client.approvals.approve((await stage.pending(session)).id, { always: true });
      await stage.idle(session);
      await stage.consumed(await stage.send(session, text()));
      await stage.idle(session);
      expect(stage.file(session, 'always')).toBe('x\nx\n');
      expect(await stage.approvals(session)).toHaveLength(1);
      // Another command is asked for as before.
      await stage.send(
        session,
        models.script({ call: agent.shell(append('other')) }, { say: 'Ran' }),
      );
      await client.approvals.deny((await stage.pending(session)).id);
      await stage.idle(session);
      expect(stage.file(session, 'other')).toBeUndefined();
    },
  },
  {
    name: 'never runs what the policy denies, and asks nobody',
    async play({ stage, agent, session }) {
      const { models } = stage;
      const rule = { tool: 'bash', params: { command: 'touch *' } };
      const { version } = await stage.client.policy.get();
      await stage.client.policy.put({ deny: [rule], version });
      const call = agent.shell('touch log');
      await stage.consumed(await stage.send(session, models.script({ call }, { say: 'Well' })));
      await stage.idle(session);
      expect(stage.file(session, 'log')).toBeUndefined();
      expect((await stage.approvals(session)).filter(({ status }) => status === 'pending')).toEqual(
        [],
      );
    },
  },
  {
    name: 'takes a message in every mode that it declares, with true receipts',
    async play({ stage, agent, session }) {
      const { modes } = session.capabilities.delivery;
      expect(modes.toSorted()).toEqual(agent.modes.toSorted());
      for (const mode of modes) await receipts[mode]({ stage, agent, session });
    },
  },
  {
    name: 'is started again after kill -9 while it runs a command, remembers, and asks again',
    async play({ stage, agent, session }) {
      const { client, models } = stage;
      const earlier = models.script({ say: 'Good morning' });
      await stage.consumed(await stage.send(session, earlier));
      const text = models.script({ call: agent.shell(untilFile) }, { say: 'Ran' });
      const message = await stage.send(session, text);
      await client.approvals.approve((await stage.pending(session)).id);
      await stage.until(() => stage.file(session, 'log'));
      const before = stage.processes(session);
      stage.killAgent(session);
      await stage.until(() => before.every((pid) => !stage.processes(session).includes(pid)));
      // The message is sent again, and what was allowed before is not allowed again.
      const approval = await stage.pending(session);
      expect(stage.file(session, 'log')).toBe('started\n');
      stage.write(session, 'go');
      await client.approvals.approve(approval.id);
      await stage.consumed(message);
      await stage.idle(session);
      expect(stage.file(session, 'log')).toBe('started\nstarted\nended\n');
      expect(models.readings(earlier).at(-1)).toBe(models.requests.at(-1));
    },
  },
  {
    name: 'is resumed after kill -9 of the server while an approval is open, which is closed',
    async play({ stage, agent, session }) {
      const { models } = stage;
      const earlier = models.script({ say: 'Good morning' });
      await stage.consumed(await stage.send(session, earlier));
      const text = models.script({ call: agent.shell(append('log')) }, { say: 'Ran' });
      const message = await stage.send(session, text);
      const { id } = await stage.pending(session);
      const before = stage.processes(session);
      await stage.server.kill();
      await stage.startServer();
      await stage.until(() => before.every((pid) => !stage.processes(session).includes(pid)));
      const { client } = stage;
      const approval = await stage.pending(session);
      expect(approval.id).not.toBe(id);
      expect((await client.approvals.get(id)).status).toBe('closed');
      expect(stage.file(session, 'log')).toBeUndefined();
      await client.approvals.approve(approval.id);
      await stage.consumed(message);
      await stage.idle(session);
      expect(stage.file(session, 'log')).toBe('x\n');
      expect(models.readings(earlier).at(-1)).toBe(models.requests.at(-1));
    },
  },
  {
    name: 'is forked with what it has read, if it declares that',
    async play({ stage, session }) {
      const { client, models } = stage;
      expect(session.capabilities.lifecycle.fork).toBe(true);
      const text = models.script({ say: 'First' });
      await stage.consumed(await stage.send(session, text));
      await stage.idle(session);
      const handle = `${session.identity.handle}-fork`;
      const fork = await client.sessions.fork(session.id, { handle });
      await stage.idle(fork);
      await client.sessions.release(session.id);
      await stage.consumed(await stage.send(fork, models.script({ say: 'Second' })));
      await stage.idle(fork);
      expect(models.requests.at(-1)?.items.some((item) => item.text.includes(text))).toBe(true);
      await stage.release(fork);
    },
  },
];

/** Sends a message in this mode while the agent works, and compares its receipts with what the model reads. */
const receipts: Readonly<Record<DeliveryMode, (scene: Scene) => Promise<void>>> = {
  async 'on-idle'({ stage, session }) {
    const { models } = stage;
    const finish = Promise.withResolvers<void>();
    const first = models.script({ say: 'Word by word', until: finish.promise });
    await stage.send(session, first);
    await stage.until(() => models.readings(first).length > 0);
    const text = models.script({ say: 'After that' });
    const message = await stage.send(session, text, 'on-idle');
    expect((await stage.delivery(message)).status).toMatch(/accepted|deferred/);
    expect(models.readings(text)).toEqual([]);
    finish.resolve();
    await stage.consumed(message);
    expect(models.readings(text)).not.toEqual([]);
    await stage.idle(session);
  },
  async immediate({ stage, session }) {
    const { models } = stage;
    const never = Promise.withResolvers<void>();
    const first = models.script({ say: 'Word by word', until: never.promise });
    await stage.send(session, first);
    await stage.until(() => models.readings(first).length > 0);
    const text = models.script({ say: 'Instead of that' });
    const message = await stage.send(session, text, 'immediate');
    await stage.consumed(message);
    expect(models.readings(text)).not.toEqual([]);
    await stage.idle(session);
    never.resolve();
  },
  async 'next-tool-call'({ stage, agent, session }) {
    const { models } = stage;
    await stage.send(session, models.script({ call: agent.shell(untilFile) }, { say: 'Ran' }));
    await stage.client.approvals.approve((await stage.pending(session)).id);
    await stage.until(() => stage.file(session, 'log'));
    const text = 'Before you go on: be brief';
    const message = await stage.send(session, text, 'next-tool-call');
    expect((await stage.delivery(message)).status).toMatch(/accepted|deferred/);
    stage.write(session, 'go');
    await stage.consumed(message);
    const [first] = models.readings(text);
    const roles = first?.items.map((item) => (item.text.includes(text) ? 'message' : item.role));
    expect(roles?.indexOf('message')).toBeGreaterThan(roles?.lastIndexOf('tool') ?? -1);
    await stage.idle(session);
    expect(stage.file(session, 'log')).toBe('started\nended\n');
  },
  'next-message': () => Promise.reject(new Error('No agent declares it')),
  async manual({ stage, session }) {
    const { client, models } = stage;
    const text = models.script({ say: 'At last' });
    const message = await stage.send(session, text, 'manual');
    const other = await stage.send(session, models.script({ say: 'Before that' }));
    await stage.consumed(other);
    await stage.idle(session);
    expect((await stage.delivery(message)).status).toMatch(/accepted|deferred/);
    expect(models.readings(text)).toEqual([]);
    await client.sessions.flush(session.id);
    await stage.consumed(message);
    expect(models.readings(text)).not.toEqual([]);
    await stage.idle(session);
  },
};
