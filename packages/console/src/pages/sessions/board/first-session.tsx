/** What the board says while there is no session. */
import { useMutation } from '@tanstack/react-query';
import { useLocation } from 'wouter';
import { useMay } from '../../../api/account.tsx';
import { client } from '../../../api/client.ts';
import { sessionChanged } from '../../../api/sessions.ts';
import { Button } from '../../../ui/button.tsx';
import { Empty, ErrorNotice } from '../../../ui/notice.tsx';
import { CopyButton } from '../../../ui/values.tsx';

const startAgent = `relay sessions start claude \\
  --handle reviewer --workspace app`;

const attachProgram = `import { createClient } from '@relay/sdk';

const client = createClient({
  baseUrl: '${location.origin}',
  apiKey: process.env.RELAY_API_KEY,
});
await client.sessions.serve({
  handle: 'deployer',
  async onMessage({ from, text }, { reply }) {
    console.log(\`\${from.name}: \${text}\`);
    await reply(\`Deployed \${text}\`);
  },
});`;

export function FirstSession() {
  const [, navigate] = useLocation();
  const mayRun = useMay('runs');
  const start = useMutation({
    mutationFn: () => client.sessions.create({ harness: 'native', handle: 'demo', model: 'demo' }),
    onSuccess: (session) => {
      sessionChanged(session);
      navigate(`/sessions/${session.id}`);
    },
  });
  return (
    <div className="min-h-0 flex-1 overflow-y-auto pb-8">
      <Empty
        title="No session yet"
        action={
          mayRun ? (
            <Button kind="primary" disabled={start.isPending} onClick={() => start.mutate()}>
              Start a demo session
            </Button>
          ) : undefined
        }
      >
        A session is a live participant that receives messages: an agent, a coding agent such as
        Claude Code, a program, or a person. The demo session needs no model provider.
      </Empty>
      {start.error === null ? null : (
        <ErrorNotice title="The session could not be started" error={start.error} />
      )}
      <div className="mx-auto grid max-w-3xl gap-4 px-4 md:grid-cols-2">
        <Example title="Start a coding agent" text={startAgent} />
        <Example title="Attach a program" text={attachProgram} />
      </div>
    </div>
  );
}

function Example({ title, text }: { readonly title: string; readonly text: string }) {
  return (
    <section className="min-w-0 self-start rounded border border-line bg-surface">
      <h2 className="flex items-center justify-between border-b border-line py-1 pr-1 pl-3 text-sm font-medium">
        {title}
        <CopyButton text={text} label="example" />
      </h2>
      <pre className="overflow-x-auto p-3 font-mono text-xs" tabIndex={0}>
        {text}
      </pre>
    </section>
  );
}
