/** The tools that a request brings or names. */
import { handoffToolName, type RunSpec } from '@relay/core';
import { type BodyOf, checkToolSchema, type FunctionTool } from '@relay/protocol';
import { invalidField } from '../errors.ts';
import type { Call } from './handler.ts';
import { chooseTools } from './start.ts';

type Wanted = NonNullable<BodyOf<'startRun'>['tools']>;

/** Names of the tenant's tools, and the caller's own functions, in the order of the request. */
export function chooseAll(call: Call, wanted: Wanted): Pick<RunSpec, 'tools' | 'functions'> {
  const registry = call.context.control.engine.tools(call.caller.tenantId);
  const functions: FunctionTool[] = [];
  for (const [index, tool] of wanted.entries()) {
    const path = `tools[${index}]`;
    if (wanted.findIndex(({ name }) => name === tool.name) !== index) {
      throw invalidField(`${path}.name`, `The tool ${tool.name} is named twice`);
    }
    if (tool.kind === 'builtin') {
      chooseTools(call, [tool.name], `${path}.name`);
      continue;
    }
    const { kind: _, ...declared } = tool;
    const isOurs = registry.find(tool.name) !== undefined || tool.name === handoffToolName;
    if (isOurs || tool.name in Object.prototype) {
      throw invalidField(`${path}.name`, `A function cannot be named ${tool.name}`);
    }
    const [issue] = checkToolSchema(tool.inputSchema);
    if (issue !== undefined) {
      const within = issue.path === '' ? '' : `.${issue.path}`;
      throw invalidField(`${path}.inputSchema${within}`, issue.message);
    }
    functions.push(declared);
  }
  return { tools: wanted.map(({ name }) => name), functions };
}
