/** `--timeout`: when to stop waiting for a run, an invocation or a message, which goes on. */
import { InvalidArgumentError, Option } from 'commander';
import { CliError, exitCodes } from './errors.ts';
import { duration } from './options.ts';
import { relay } from './environment.ts';

export function timeoutOption(whatGoesOn = 'the run'): Option {
  const description = `stop waiting after this time, such as 90s or 5m; ${whatGoesOn} goes on`;
  return new Option('--timeout <duration>', description).argParser(timerSeconds);
}

/** A timer cannot be longer: it would fire at once. */
const longestTimerMs = 2 ** 31 - 1;

function timerSeconds(text: string): number {
  const seconds = duration(text, '90s or 5m');
  if (seconds * 1_000 <= longestTimerMs) return seconds;
  throw new InvalidArgumentError('Must be at most 24d; without this option there is no limit.');
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
      : `it goes on: "${relay} runs tail ${runId}" follows it, "${relay} runs cancel ${runId}" ends it`;
  const message = `The run has not ended after ${seconds} s`;
  return new CliError('timeout', message, { exit: exitCodes.timeout, hint });
}

/** A response waits at most this long; a wait without --timeout is about as long. */
const longestRequestMs = 25_000;

/**
 * Asks again until the answer is final or the time is over, and returns the last answer. The server waits in
 * each request.
 */
export async function askUntil<Answer>(
  seconds: number | undefined,
  ask: (waitMs: number) => Promise<Answer>,
  isFinal: (answer: Answer, isEarly: boolean) => boolean,
): Promise<Answer> {
  const end = Date.now() + (seconds === undefined ? longestRequestMs : seconds * 1_000);
  for (;;) {
    const askedAt = Date.now();
    const waitMs = Math.min(Math.max(0, end - askedAt), longestRequestMs);
    const answer = await ask(waitMs);
    const isEarly = Date.now() - askedAt < waitMs / 2;
    if (isFinal(answer, isEarly) || Date.now() >= end) return answer;
  }
}
