import { type Dialect, dialects, type Frame } from '@relay/protocol';
import { header, journal } from '../packages/protocol/test/dialects/fixture-journal.ts';

interface Example {
  readonly from: Set<string>;
  readonly frame: Frame;
}

/** The first frame of each type in a journal with every event, and the events it is derived from. */
function examplesOf(dialect: Dialect): Map<string, Example> {
  const found = new Map<string, Example>();
  for (const event of journal) {
    const frame = dialect.project(event, header);
    if (frame === undefined) continue;
    const known = found.get(frame.type);
    if (known === undefined) found.set(frame.type, { from: new Set([event.type]), frame });
    else known.from.add(event.type);
  }
  return found;
}

const intro: Readonly<Record<keyof typeof dialects, string>> = {
  runs: '`POST /v1/runs` and `GET /v1/runs/:id/stream`. The first frame is `run`, the last is `done`. On `reset`, discard the tokens with an id higher than `after`.',
  chat: '`POST /chat`. Frames also have their type as the SSE `event`. The first frame is `connected {sessionId}`, which is not a journal event and has no `id`; the last is `harness_end`. On `text_discard`, discard the text with this id.',
  runtime:
    '`POST /api/chat`; `POST /api/chat/tool-approval` and `/resume` return the same frames. The last frame is `done`. On `text_reset`, discard the text of this turn.',
};

function section(name: keyof typeof dialects): string[] {
  const rows = [...examplesOf(dialects[name])].map(([type, { from, frame }]) => {
    const events = [...from].map((each) => `\`${each}\``);
    const example = JSON.stringify(frame).replaceAll('|', '\\|').replaceAll('`', '\\`');
    return `| \`${type}\` | ${events.join(', ')} | \`${example}\` |`;
  });
  return [
    `## ${name}`,
    '',
    intro[name],
    '',
    '| frame | derived from | example |',
    '|---|---|---|',
    ...rows,
    '',
  ];
}

export function streamsPage(generated: string): string {
  return [
    '# Streams',
    '',
    generated,
    '',
    'A stream is a run’s journal in one of three dialects. An event becomes at most one frame: `data` is a line of JSON with a `type`, and `id` is the event’s `seq`. After a disconnect, send the last id that you received as `Last-Event-ID` (or `?after=`) to `GET /v1/runs/:id/stream`; the stream continues exactly after it. `?dialect=` selects another dialect than `runs`. If the run has ended and nothing follows, the answer is 204. Lines that begin with a colon are heartbeats, sent every 15 seconds.',
    '',
    ...section('runs'),
    ...section('chat'),
    ...section('runtime'),
  ].join('\n');
}
