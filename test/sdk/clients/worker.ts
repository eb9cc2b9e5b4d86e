/** A client process with one function tool, which records its calls and then may hang. */
import { appendFileSync, fsyncSync, openSync } from 'node:fs';
import { createClient, defineTool } from '@relay/sdk';

const { RELAY_URL = '', RELAY_API_KEY = '', RUN_ID, LEDGER = '', NAME, HOLD } = process.env;

const charge = defineTool({
  name: 'charge',
  description: 'Charges a card',
  schema: { type: 'object', properties: { cents: { type: 'integer' } }, required: ['cents'] },
  idempotent: true,
  async execute({ cents }, { idempotencyKey }) {
    const ledger = openSync(LEDGER, 'a');
    appendFileSync(ledger, `${JSON.stringify({ by: NAME, cents, idempotencyKey })}\n`);
    fsyncSync(ledger);
    console.log('ran');
    if (HOLD === 'yes') await new Promise(() => setInterval(() => {}, 1000));
    return { by: NAME };
  },
});

const { runs } = createClient({ baseUrl: RELAY_URL, apiKey: RELAY_API_KEY });
const run =
  RUN_ID === undefined
    ? await runs.create({ model: 'demo', input: 'use charge {"cents": 500}', tools: [charge] })
    : runs.stream(RUN_ID, { tools: [charge] });
console.log(`run ${run.id}`);
const { status, output } = await run.result();
console.log(`done ${status} ${output}`);
