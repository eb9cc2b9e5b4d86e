import type { CliCommand, Context } from '../../command.ts';
import { relay } from '../../environment.ts';

export function registerPause(program: CliCommand): void {
  program
    .command('pause')
    .description('pause the tenant: no run starts or goes on until "relay unpause"')
    .examples(
      ['relay pause', 'relay unpause'],
      'Nothing is lost: open runs go on after "relay unpause". To stop one run, use "relay runs ' +
        'cancel"; to pause one session, "relay sessions pause". It requires the scope admin.',
    )
    .handle((context) => setPaused(context, true));
  program
    .command('unpause')
    .description('let the runs of a paused tenant go on')
    .examples(['relay unpause'])
    .handle((context) => setPaused(context, false));
}

async function setPaused(context: Context, paused: boolean): Promise<void> {
  const { tenant } = await context.client();
  const changed = await tenant.update({ paused });
  const { queued, running, waiting } = changed.openRuns;
  const count = queued + running + waiting;
  const open = count === 1 ? '1 open run' : `${count} open runs`;
  context.print.result(
    changed,
    paused ? `Paused: ${open}. "${relay} unpause" lets them go on.` : `Unpaused: ${open}.`,
  );
}
