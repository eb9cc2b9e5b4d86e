/** A run as code that starts the same one, or follows this one. */
import type { Run } from '@relay/protocol/wire';

export interface CodeSample {
  readonly name: string;
  readonly code: string;
}

/** The key is a variable: a copied line is often pasted where others read it. */
export function codeSamples(run: Run, origin: string, tools: readonly string[]): CodeSample[] {
  const body = {
    agent: run.agent,
    model: run.model,
    input: run.input ?? '',
    ...(tools.length === 0
      ? {}
      : { tools: tools.map((name) => ({ kind: 'builtin' as const, name })) }),
    ...(Object.keys(run.labels).length === 0 ? {} : { labels: run.labels }),
  };
  const json = JSON.stringify(body, null, 2);
  const connect = `import { createClient } from '@relay/sdk';\n\nconst relay = createClient({ baseUrl: ${JSON.stringify(origin)}, apiKey: process.env.RELAY_API_KEY });`;
  return [
    {
      name: 'curl: start the same run',
      code: [
        `curl -N ${origin}/v1/runs \\`,
        `  -H "authorization: Bearer $RELAY_API_KEY" \\`,
        `  -H 'content-type: application/json' \\`,
        `  -d ${quoted(JSON.stringify(body))}`,
      ].join('\n'),
    },
    {
      name: 'curl: follow this run',
      code: [
        `curl -N ${origin}/v1/runs/${run.id}/stream \\`,
        `  -H "authorization: Bearer $RELAY_API_KEY"`,
      ].join('\n'),
    },
    {
      name: 'SDK: start the same run',
      code: `${connect}\nconst run = await relay.runs.create(${json});\nconsole.log(await run.text());\n`,
    },
    {
      name: 'SDK: follow this run',
      code: `${connect}\nfor await (const event of relay.runs.stream(${JSON.stringify(run.id)})) {\n  console.log(event);\n}\n`,
    },
  ];
}

/** For a POSIX shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
