/** What agents do to the process that they run in: they neither hold it nor fill it. */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';

const root = fileURLToPath(new URL('../../..', import.meta.url));

const prelude = `
  import { z } from 'zod';
  import { AgentOrchestrator, createAgentHarness, createDeterministicHarness } from '@relay/agents';
  const messages = [{ role: 'user', content: 'Begin' }];
  const bash = {
    name: 'bash', description: 'Run a command', schema: z.object({ command: z.string() }),
    execute: async ({ command }) => ({ context: command }),
  };
  const call = { type: 'tool_call', id: 'tc-1', name: 'bash', input: { command: 'ls' } };
  const harness = (options) => createDeterministicHarness([call], options);
  const collect = async (stream, events = []) => {
    for await (const event of stream) events.push(event);
    return events;
  };
  const isGone = async (ref) => {
    for (let n = 0; n < 10 && ref.deref() !== undefined; n += 1) {
      await new Promise((resolve) => setTimeout(resolve, 5));
      await gc({ execution: 'async' });
    }
    return ref.deref() === undefined;
  };
`;

async function run(program: string) {
  const flags = ['--expose-gc', '--no-warnings', '--input-type=module-typescript'];
  const child = spawn(process.execPath, [...flags, '-e', `${prelude}\n${program}`], { cwd: root });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  }
  const code = await new Promise((resolve) => child.once('close', resolve));
  return { code, output: output.trim() };
}

describe('a process', () => {
  test('exits by itself after a run, whatever its outcome', async () => {
    const { code, output } = await run(`
      const began = performance.now();
      const allowed = { permissions: { allowlist: [{ tool: 'bash' }] } };
      const agent = createAgentHarness({ harness: harness({ relayTimeoutMs: 600_000 }) });
      await collect(agent.invoke({ messages, tools: [bash], ...allowed }));
      for await (const event of agent.invoke({ messages, tools: [bash] })) {
        if (event.type === 'relay') break;
      }
      const signal = AbortSignal.timeout(20);
      await collect(agent.invoke({ messages, tools: [bash], signal }));
      const orchestrator = new AgentOrchestrator(agent);
      orchestrator.spawn({ messages, tools: [bash] });
      for await (const { event } of orchestrator.events()) {
        if (event.type === 'relay') orchestrator.abort();
      }
      console.log('over');
      process.on('exit', () => console.log(performance.now() - began < 5_000 ? 'soon' : 'late'));
    `);
    expect({ code, output }).toEqual({ code: 0, output: 'over\nsoon' });
  });

  test('is not kept alive by an agent that waits forever', async () => {
    const { code } = await run(`
      const agent = createAgentHarness({ harness: harness({ relayTimeoutMs: Infinity }) });
      await collect(agent.invoke({ messages, tools: [bash] }));
    `);
    // Node's own code for an await that can never be settled.
    expect(code).toBe(13);
  });

  test('is kept alive until a relay with a timeout expires', async () => {
    const { code, output } = await run(`
      const agent = createAgentHarness({ harness: harness({ relayTimeoutMs: 50 }) });
      const events = await collect(agent.invoke({ messages, tools: [bash] }));
      console.log(events.filter((event) => event.type === 'relay').length);
    `);
    expect({ code, output }).toEqual({ code: 0, output: '1' });
  });
});

describe('memory', () => {
  test('of a run that is over is freed, also if its events are kept', async () => {
    const { output } = await run(`
      const kept = [];
      async function once(answer) {
        const model = harness({ relayTimeoutMs: 10 });
        const context = { large: new Uint8Array(1_000) };
        const agent = createAgentHarness({ harness: model });
        const stream = agent.invoke({ messages, tools: [bash], context });
        for await (const event of stream) {
          kept.push(event);
          if (event.type === 'relay') answer?.(event);
        }
        kept.push(stream);
        return [new WeakRef(context), new WeakRef(model)];
      }
      const refs = [...await once(), ...await once((relay) => relay.respond({ approved: true }))];
      const gone = [];
      for (const ref of refs) gone.push(await isGone(ref));
      console.log(gone.join(), kept.filter((event) => event.type === 'relay').length);
    `);
    expect(output).toBe('true,true,true,true 2');
  });

  test('of a spawned agent that is over is freed, and its rules can still be read', async () => {
    const { output } = await run(`
      const orchestrator = new AgentOrchestrator(createAgentHarness({ harness: harness() }));
      function spawn() {
        const context = { large: new Uint8Array(1_000) };
        return [orchestrator.spawn({ messages, tools: [bash], context }), new WeakRef(context)];
      }
      const [agentId, ref] = spawn();
      for await (const { event } of orchestrator.events()) {
        if (event.type === 'relay') orchestrator.resolveRelay(event.id, { approved: true, always: true });
      }
      console.log(await isGone(ref), orchestrator.getPermissions(agentId).allowlist.length);
    `);
    expect(output).toBe('true 1');
  });

  test('of an unread run that waits forever is freed', async () => {
    const { output } = await run(`
      async function abandoned() {
        const context = { large: new Uint8Array(1_000) };
        const agent = createAgentHarness({ harness: harness({ relayTimeoutMs: Infinity }) });
        const stream = agent.invoke({ messages, tools: [bash], context });
        for (;;) if ((await stream.next()).value.type === 'relay') break;
        await new Promise((resolve) => setTimeout(resolve, 10));
        return new WeakRef(context);
      }
      console.log(await isGone(await abandoned()));
    `);
    expect(output).toBe('true');
  });
});
