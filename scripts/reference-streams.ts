import { type Dialect, dialects, type Frame } from '@relay/protocol';
import { header, journal } from '../packages/protocol/test/dialects/fixture-journal.ts';

interface Example {
  readonly from: Set<string>;
  readonly frame: Frame;
}

/** Of each kind of frame its first one in a run that uses every event, and what it is made from. */
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
  runs: '`POST /v1/runs` and `GET /v1/runs/:id/stream`. The last frame is always `done`. `reset` means: forget the tokens with a higher id than `after`, they were superseded.',
  chat: '`POST /chat`. Frames also carry their type as the SSE `event`. The first frame is `connected {sessionId}`, which is no event of the journal and has no `id`; the last is `harness_end`. `text_discard` means: forget the text with this id.',
  runtime:
    '`POST /api/chat`; `POST /api/chat/tool-approval` and `/resume` answer with the same words. The last frame is always `done`. `text_reset` means: forget the text of this turn.',
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
    '| frame | from | an example |',
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
    'Every stream is a view of a run’s journal in the words of one surface. One event becomes at most one frame: `data` is a line of JSON with a `type`, and `id` is the event’s `seq`. After a disconnect send the last id that you saw as `Last-Event-ID` (or `?after=`) to `GET /v1/runs/:id/stream`, with `?dialect=` for other words than those of `runs`, and exactly what follows is sent. Lines that begin with a colon are heartbeats, every 15 seconds.',
    '',
    ...section('runs'),
    ...section('chat'),
    ...section('runtime'),
  ].join('\n');
}
