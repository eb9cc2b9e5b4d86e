/** `--timeout`: when to stop waiting for a run, which goes on. */
import { Option } from 'commander';
import { CliError, exitCodes } from './errors.ts';
import { duration } from './options.ts';

export function timeoutOption(): Option {
  const description = 'stop waiting after this time, such as 90s or 5m; the run goes on';
  return new Option('--timeout <duration>', description).argParser(duration);
}

/** For `runs.stream`: aborted with the error of the command when the time is over. */
export function deadlineOf(seconds: number | undefined, runId: string): AbortSignal | undefined {
  if (seconds === undefined) return undefined;
  const deadline = new AbortController();
  setTimeout(() => deadline.abort(timeoutError(seconds, runId)), seconds * 1_000).unref();
  return deadline.signal;
}

export function timeoutError(seconds: number, runId: string | undefined): CliError {
  const hint =
    runId === undefined
      ? undefined
      : `it goes on: "relay runs tail ${runId}" follows it, "relay runs cancel ${runId}" ends it`;
  const message = `The run has not ended after ${seconds} s`;
  return new CliError('timeout', message, { exit: exitCodes.timeout, hint });
}
