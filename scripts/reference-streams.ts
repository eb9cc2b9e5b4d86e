import { type Dialect, dialects, type Frame } from '@relay/protocol';
import { header, journal } from '../packages/protocol/test/dialects/fixture-journal.ts';

interface Example {
  readonly from: Set<string>;
  readonly frame: Frame;
}

/** The first frame of each type in a run with every event, and the events that it is projected from. */
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
  runs: '`POST /v1/runs` and `GET /v1/runs/:id/stream`. The last frame is always `done`. `reset` means: discard the tokens with an id higher than `after`.',
  chat: '`POST /chat`. The SSE `event` field repeats the type of the frame. The first frame is `connected {sessionId}`, which is not a journal event and has no `id`; the last is `harness_end`. `text_discard` means: discard the text with this id.',
  runtime:
    '`POST /api/chat`; `POST /api/chat/tool-approval` and `/resume` respond with the same frames. The last frame is always `done`. `text_reset` means: discard the text of this turn.',
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
    '| frame | events | example |',
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
    'Every stream is a projection of a run’s journal in the dialect of one surface. One event becomes at most one frame: `data` is one line of JSON with a `type`, and `id` is the event’s `seq`. After a disconnect, send the last id as `Last-Event-ID` (or `?after=`) to `GET /v1/runs/:id/stream`, with `?dialect=` for a dialect other than `runs`, and the stream resumes after it. Lines that begin with a colon are heartbeats, sent every 15 seconds.',
    '',
    ...section('runs'),
    ...section('chat'),
    ...section('runtime'),
  ].join('\n');
}
