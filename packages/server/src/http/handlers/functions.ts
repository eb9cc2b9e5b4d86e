/** The tools that a request brings or names. */
import { handoffToolName } from '@relay/core';
import {
  checkToolSchema,
  type FunctionTool,
  RelayError,
  type runBodySchema,
} from '@relay/protocol';
import type { z } from 'zod';
import type { Call } from './handler.ts';
import { chooseTools } from './start.ts';

type Wanted = NonNullable<z.infer<typeof runBodySchema>['tools']>;

export interface Tools {
  readonly tools: readonly string[];
  readonly functions?: readonly FunctionTool[];
}

/** Names of the tenant's tools, and the caller's own functions, in the order of the request. */
export function chooseAll(call: Call, wanted: Wanted): Tools {
  const registry = call.context.control.engine.tools(call.caller.tenantId);
  const functions: FunctionTool[] = [];
  for (const [index, tool] of wanted.entries()) {
    const path = `tools[${index}]`;
    if (wanted.findIndex(({ name }) => name === tool.name) !== index) {
      throw refused(`${path}.name`, `The tool ${tool.name} is named twice`);
    }
    if (tool.kind === 'builtin') {
      chooseTools(call, [tool.name], `${path}.name`);
      continue;
    }
    const { kind: _, ...declared } = tool;
    const isOurs = registry.find(tool.name) !== undefined || tool.name === handoffToolName;
    if (isOurs || tool.name in Object.prototype) {
      throw refused(`${path}.name`, `A function cannot be named ${tool.name}`);
    }
    const [issue] = checkToolSchema(tool.inputSchema);
    if (issue !== undefined) {
      const within = issue.path === '' ? '' : `.${issue.path}`;
      throw refused(`${path}.inputSchema${within}`, issue.message);
    }
    functions.push(declared);
  }
  return {
    tools: wanted.map(({ name }) => name),
    ...(functions.length === 0 ? {} : { functions }),
  };
}

function refused(path: string, message: string): RelayError {
  return new RelayError('invalid_request', `${path}: ${message}`, { details: [{ path, message }] });
}
