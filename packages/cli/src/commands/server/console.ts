import type { CliCommand, Context } from '../../command.ts';

export function registerConsole(program: CliCommand): void {
  program
    .command('console')
    .description('print a link that signs in to the console')
    .examples(
      ['relay console', 'relay console --json'],
      'The link works once, within 15 minutes, with the rights of the API key. Open it in a browser.',
    )
    .handle(printLink);
}

async function printLink(context: Context): Promise<void> {
  const client = await context.client();
  const link = await client.console.link();
  const note = 'Open this link in a browser. It signs in once, within 15 minutes:';
  context.print.secret(link, note, link.url);
}
