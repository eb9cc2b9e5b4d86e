/**
 * Messages to attached programs, while servers and programs are killed between accepted, delivered and
 * consumed. The files of the programs and of the senders are trusted; the store is not.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { StoredSessionEvent } from '@relay/protocol';
import type { Environment } from './environment.ts';
import type { Chance } from './faults.ts';
import { Process } from './processes.ts';
import { readLines } from './record.ts';

/** `twice`: opens a second stream before the first has ended. */
const behaviours = ['prompt', 'slow', 'defers', 'fails', 'twice'] as const;
export type Behaviour = (typeof behaviours)[number];

/** One line of a program. */
export type Consigned =
  | {
      readonly kind: 'frame';
      readonly deliveryId: string;
      readonly text: string;
      readonly attempt: number;
      readonly redelivered: boolean;
    }
  | { readonly kind: 'consumed'; readonly deliveryId: string; readonly redelivered: boolean }
  | { readonly kind: 'deferred'; readonly deliveryId: string }
  | {
      readonly kind: 'receipt';
      readonly deliveryId: string;
      readonly status: string;
      readonly code: number;
      readonly text?: string;
    }
  | { readonly kind: 'trouble'; readonly text: string };

interface SentMessage {
  readonly id: string;
  readonly text: string;
  readonly deliveries: readonly { readonly id: string; readonly handle: string }[];
}

/** One line of the senders. */
type Sent =
  | { readonly kind: 'sent'; readonly message: SentMessage }
  | { readonly kind: 'trouble'; readonly status: number; readonly text: string };

interface StoredDelivery {
  readonly id: string;
  readonly messageId: string;
  readonly sessionId: string;
  readonly status: string;
}

interface Program {
  readonly handle: string;
  readonly sessionId: string;
  readonly lines: readonly Consigned[];
  readonly journal: readonly StoredSessionEvent[];
}

/** All that is known at the end. */
interface DeliveryEvidence {
  readonly sent: readonly Sent[];
  readonly programs: readonly Program[];
  readonly stored: readonly StoredDelivery[];
  readonly integrity: readonly string[];
  /** The stages of deliveries that were interrupted by a kill. */
  readonly hit: ReadonlySet<Stage>;
}

/** Where a delivery can be when something is killed. */
const stages = {
  accepted: "status = 'accepted' AND attempts = 0",
  sent: "status = 'accepted' AND attempts > 0",
  delivered: "status = 'delivered'",
};
type Stage = keyof typeof stages;
const stageNames = Object.keys(stages) as Stage[];

type Invariant = (evidence: DeliveryEvidence) => readonly string[];

function linesOf<Kind extends Consigned['kind']>({ lines }: Program, kind: Kind) {
  type Found = Extract<Consigned, { kind: Kind }>;
  return lines.filter((line): line is Found => line.kind === kind);
}

const everyAcknowledgedMessageExists: Invariant = ({ sent, stored }) => {
  const found = new Map(stored.map((delivery) => [delivery.id, delivery.messageId]));
  return sent.flatMap((line) => {
    if (line.kind === 'trouble') return [`a message was refused: ${line.status} ${line.text}`];
    const { id: messageId, deliveries, text } = line.message;
    return deliveries
      .filter(({ id }) => found.get(id) !== messageId)
      .map(({ id }) => `delivery ${id} of the message "${text}" is gone`);
  });
};

const everyMessageIsStoredOnce: Invariant = ({ programs, sent }) => {
  const ids = new Map<string, string>();
  const acknowledged = sent.flatMap((line) => (line.kind === 'sent' ? [line.message] : []));
  return [
    ...acknowledged.flatMap(({ id, text }) => {
      const before = ids.get(text) ?? id;
      ids.set(text, id);
      return before === id ? [] : [`"${text}" is two messages`];
    }),
    ...programs.flatMap((program) => {
      const byText = new Map<string, string>();
      return linesOf(program, 'frame').flatMap(({ text, deliveryId }) => {
        const before = byText.get(text) ?? deliveryId;
        byText.set(text, deliveryId);
        return before === deliveryId ? [] : [`${program.handle} has "${text}" as two deliveries`];
      });
    }),
  ];
};

const terminalEvents = ['message.received', 'delivery.failed'];

const oneTerminalReceiptEach: Invariant = ({ programs, stored }) =>
  programs.flatMap(({ handle, sessionId, journal }) =>
    stored
      .filter((delivery) => delivery.sessionId === sessionId)
      .flatMap(({ id, status }) => {
        const events = journal.filter((event) => 'deliveryId' in event && event.deliveryId === id);
        const types = events.map(({ type }) => type);
        const ends = types.filter((type) => terminalEvents.includes(type));
        const last = types.at(-1);
        const meant = last === 'message.received' ? 'consumed' : 'failed';
        const isSound =
          types[0] === 'delivery.accepted' &&
          types.filter((type) => type === 'delivery.accepted').length === 1 &&
          ends.length === 1 &&
          ends[0] === last &&
          status === meant;
        return isSound ? [] : [`${id} for ${handle} is ${status}: ${types.join(', ')}`];
      }),
  );

const journalsHaveNoGap: Invariant = ({ programs }) =>
  programs.flatMap(({ handle, journal }) =>
    journal.some(({ seq }, index) => seq !== index + 1) ? [`the journal of ${handle}`] : [],
  );

/** What a program sees first of each message comes in the order of its inbox. */
const orderIsKept: Invariant = ({ programs }) =>
  programs.flatMap((program) => {
    const seen = [...new Set(linesOf(program, 'frame').map(({ deliveryId }) => deliveryId))];
    const order = program.journal.flatMap((event) =>
      event.type === 'delivery.accepted' ? [event.deliveryId] : [],
    );
    const places = seen.map((id) => order.indexOf(id));
    return places.every((place, index) => index === 0 || place > (places[index - 1] ?? -1))
      ? []
      : [`${program.handle} saw its messages in the order ${places.join(' ')}`];
  });

/** Also if a frame was lost with its program: an attempt has one number, and only the first is not marked. */
const attemptsAreMarked: Invariant = ({ programs }) =>
  programs.flatMap((program) => {
    const seen = new Set<string>();
    return linesOf(program, 'frame').flatMap(({ deliveryId, attempt, redelivered }) => {
      const name = `${deliveryId} ${attempt}`;
      const isAgain = seen.has(name);
      seen.add(name);
      return [
        ...(isAgain ? [`attempt ${attempt} of ${deliveryId} was sent twice`] : []),
        ...(redelivered === attempt > 1 ? [] : [`attempt ${attempt} of ${deliveryId} is unmarked`]),
      ];
    });
  });

/** The first attempt may arrive after the second, which another stream has sent: one of them is not marked. */
const nothingIsConsumedTwiceUnmarked: Invariant = ({ programs }) =>
  programs.flatMap((program) => {
    const unmarked = new Set<string>();
    return linesOf(program, 'consumed').flatMap(({ deliveryId, redelivered }) => {
      if (redelivered) return [];
      const isAgain = unmarked.has(deliveryId);
      unmarked.add(deliveryId);
      return isAgain ? [`${deliveryId} was consumed twice, unmarked`] : [];
    });
  });

/** What is stored as consumed was consumed; what failed is what its program refused. */
const receiptsAreTrue: Invariant = ({ programs, stored }) =>
  programs.flatMap((program) => {
    const consumed = new Set(linesOf(program, 'consumed').map(({ deliveryId }) => deliveryId));
    const receipts = linesOf(program, 'receipt');
    const refused = new Set(
      program.journal.flatMap((event) =>
        event.type === 'delivery.failed' && event.reason === 'cannot' ? [event.deliveryId] : [],
      ),
    );
    const statuses = new Map(stored.map(({ id, status }) => [id, status]));
    return [
      ...stored
        .filter(({ sessionId }) => sessionId === program.sessionId)
        .filter(({ id, status }) => !(status === 'consumed' ? consumed : refused).has(id))
        .map(({ id, status }) => `${id} is ${status}, and ${program.handle} knows nothing of it`),
      // One that says less than what is known is refused.
      ...receipts
        .filter(({ code, status }) => code !== 200 && !(code === 409 && status === 'delivered'))
        .map(({ deliveryId, code, text }) => `the receipt of ${deliveryId}: ${code} ${text ?? ''}`),
      ...receipts
        .filter(({ status }) => status === 'consumed' || status === 'failed')
        .filter(({ deliveryId, status }) => statuses.get(deliveryId) !== status)
        .map(({ deliveryId, status }) => `the receipt ${status} of ${deliveryId} is gone`),
    ];
  });

const noProgramIsRefused: Invariant = ({ programs }) =>
  programs.flatMap((program) =>
    linesOf(program, 'trouble').map(({ text }) => `${program.handle}: ${text}`),
  );

const sqliteIsIntact: Invariant = ({ integrity }) => integrity.filter((word) => word !== 'ok');

const notVacuous: Invariant = ({ hit }) =>
  stageNames
    .filter((stage) => !hit.has(stage))
    .map((stage) => `nothing was ${stage} when something was killed`);

const deliveryInvariants: Readonly<Record<string, Invariant>> = {
  everyAcknowledgedMessageExists,
  everyMessageIsStoredOnce,
  oneTerminalReceiptEach,
  journalsHaveNoGap,
  orderIsKept,
  attemptsAreMarked,
  nothingIsConsumedTwiceUnmarked,
  receiptsAreTrue,
  noProgramIsRefused,
  sqliteIsIntact,
  notVacuous,
};

const senders = 3;
const timeoutMs = 60_000;

interface Recipient {
  readonly handle: string;
  readonly file: string;
  readonly behaviour: Behaviour;
  sessionId: string;
  process: Process;
}

/**
 * Kills a server and a program in turn, `times` in all, when there are deliveries at each of the stages in turn.
 * They may leave it before the kill: it goes on until each stage was interrupted.
 */
export async function killDuringDeliveries(
  environment: Environment,
  { name, times, chance }: { name: string; times: number; chance: Chance },
): Promise<{ times: number; deliveries: number; violations: string[] }> {
  const recipients: Recipient[] = [];
  const file = environment.file(`sender-${name}.jsonl`);
  const sender = new Process('sender', { SENDER_FILE: file, ROUND: name });
  const servers = () => ({ urls: environment.urls, key: environment.apiKey });
  const moved = () => {
    sender.send({ do: 'servers', ...servers() });
    for (const each of recipients) each.process.send(servers());
  };
  try {
    const started = behaviours.map(async (behaviour) => {
      const handle = `${name}-${behaviour}`.toLowerCase();
      const own = { handle, file: environment.file(`${handle}.jsonl`), behaviour };
      recipients.push({ ...own, ...(await startRecipient(own, servers())) });
    });
    await Promise.all(started);
    moved();
    sender.send({ do: 'go', senders, handles: recipients.map(({ handle }) => handle) });
    const hit = new Set<Stage>();
    let kills = 0;
    for (; kills < times || (hit.size < stageNames.length && kills < 5 * times); kills += 1) {
      await untilConsuming(recipients);
      const stage = stageNames[kills % stageNames.length] ?? 'sent';
      const reached = () => recipientsAt(environment, recipients, stage);
      const chosen = pick(await untilSome(reached), chance);
      const restart = await (kills % 2 === 0
        ? killNode(environment, chance, moved)
        : killProgram(chosen, chance, servers));
      if ((await reached()).includes(chosen)) hit.add(stage);
      await restart();
    }
    const drained = sender.waitFor<{ said?: string }>(({ said }) => said === 'drained');
    sender.send({ do: 'drain' });
    await drained;
    const left = await untilEnded(environment, recipients);
    const evidence = await gather(environment, { recipients, file, hit });
    const violations = Object.entries(deliveryInvariants).flatMap(([invariant, holds]) =>
      holds(evidence).map((what) => `${invariant}: ${what}`),
    );
    if (left > 0) violations.unshift(`everyDeliveryEnds: ${left} have not`);
    return { times: kills, deliveries: evidence.stored.length, violations };
  } finally {
    sender.end();
    for (const each of recipients) each.process.end();
  }
}

async function startRecipient(
  { handle, file, behaviour }: { handle: string; file: string; behaviour: Behaviour },
  servers: object,
): Promise<{ process: Process; sessionId: string }> {
  const env = { RECIPIENT_FILE: file, HANDLE: handle, BEHAVIOUR: behaviour };
  const process = new Process('recipient', env);
  const ready = process.waitFor<{ said?: string; sessionId?: string }>(
    ({ said }) => said === 'ready',
  );
  process.send(servers);
  const { sessionId = '' } = await ready;
  return { process, sessionId };
}

type Restart = () => Promise<void>;

function pick<Item>(items: readonly Item[], chance: Chance): Item {
  const item = items[Math.floor(chance() * items.length)];
  if (item === undefined) throw new Error('There is nothing to pick from');
  return item;
}

async function killNode(
  environment: Environment,
  chance: Chance,
  moved: () => void,
): Promise<Restart> {
  const node = pick(environment.nodes, chance);
  await node.kill();
  moved();
  return async () => {
    await pause(chance() * 100);
    await node.start();
    moved();
  };
}

async function killProgram(
  program: Recipient,
  chance: Chance,
  servers: () => object,
): Promise<Restart> {
  program.process.end();
  return async () => {
    await pause(chance() * 200);
    const { process, sessionId } = await startRecipient(program, servers());
    program.process = process;
    if (sessionId !== program.sessionId) throw new Error(`${program.handle} has another session`);
  };
}

/** Nothing is killed before every program has recovered from the kill before. */
async function untilConsuming(recipients: readonly Recipient[]): Promise<void> {
  const consumed = ({ file }: Recipient) =>
    readLines<Consigned>(file).filter(({ kind }) => kind === 'consumed').length;
  const before = recipients.map(consumed);
  const deadline = Date.now() + timeoutMs;
  while (recipients.some((each, index) => consumed(each) < (before[index] ?? 0) + 2)) {
    if (Date.now() > deadline) throw new Error('A program consumes nothing any more');
    await pause(25);
  }
}

function ofSessions(recipients: readonly Recipient[]): string {
  return `session_id IN (${recipients.map(({ sessionId }) => `'${sessionId}'`).join(', ')})`;
}

/** The recipients of deliveries that are at the stage. */
async function recipientsAt(
  environment: Environment,
  recipients: readonly Recipient[],
  stage: Stage,
): Promise<readonly Recipient[]> {
  const rows = await environment.query(`SELECT DISTINCT session_id FROM message_deliveries
    WHERE ${ofSessions(recipients)} AND ${stages[stage]}`);
  return recipients.filter(({ sessionId }) => rows.some(({ session_id: id }) => id === sessionId));
}

async function untilSome<Item>(look: () => Promise<readonly Item[]>): Promise<readonly Item[]> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const found = await look();
    if (found.length > 0) return found;
    if (Date.now() > deadline) throw new Error('No delivery reaches the stage');
    await pause(5);
  }
}

/** How many have not, if it takes too long. */
async function untilEnded(environment: Environment, recipients: readonly Recipient[]) {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const [row] = await environment.query(`SELECT COUNT(*) AS count FROM message_deliveries
      WHERE ${ofSessions(recipients)} AND final_at IS NULL`);
    const left = Number(row?.['count']);
    if (left === 0 || Date.now() > deadline) return left;
    await pause(50);
  }
}

async function gather(
  environment: Environment,
  {
    recipients,
    file,
    hit,
  }: { recipients: readonly Recipient[]; file: string; hit: ReadonlySet<Stage> },
): Promise<DeliveryEvidence> {
  const rows = await environment.query(`SELECT id, message_id, session_id, status
    FROM message_deliveries WHERE ${ofSessions(recipients)}`);
  const programs = await Promise.all(
    recipients.map(async ({ handle, sessionId, file: own }) => {
      const response = await environment.request(`/v1/sessions/${sessionId}/events`);
      const { events } = (await response.json()) as { events: StoredSessionEvent[] };
      return { handle, sessionId, lines: readLines<Consigned>(own), journal: events };
    }),
  );
  const checks = environment.isShared ? [] : await environment.query('PRAGMA integrity_check');
  return {
    sent: readLines<Sent>(file),
    programs,
    stored: rows.map((row) => ({
      id: String(row['id']),
      messageId: String(row['message_id']),
      sessionId: String(row['session_id']),
      status: String(row['status']),
    })),
    integrity: checks.map((row) => String(row['integrity_check'])),
    hit,
  };
}
