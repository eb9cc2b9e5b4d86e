/** Opens a chat, reads it, and prints the id of its run when the run waits for an approval. */
import { readSse } from '@relay/protocol';

const [url = '', apiKey = ''] = process.argv.slice(2);
const response = await fetch(`${url}/chat`, {
  method: 'POST',
  headers: { 'content-type': 'application/json', authorization: `Bearer ${apiKey}` },
  body: JSON.stringify({ model: 'demo', messages: [{ role: 'user', content: 'notify me' }] }),
});
if (response.body === null) throw new Error('The response has no body');
for await (const { event } of readSse(response.body)) {
  if (event === 'relay') console.log(response.headers.get('x-run-id'));
}
