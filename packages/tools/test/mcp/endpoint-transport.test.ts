import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { EndpointTransport } from '../../src/mcp/endpoint-transport.ts';

beforeEach(() => vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }));
afterEach(() => vi.useRealTimers());

const config = { url: 'https://x.example/mcp' };
const currentOwner = () => undefined;

describe('the stream of an endpoint', () => {
  it('that ends at once and requests no reconnection delay is reopened with a delay', async () => {
    let opened = 0;
    const fetch = async () => {
      opened += 1;
      const headers = { 'content-type': 'text/event-stream' };
      return new Response('retry: 0\nid: 1\ndata: \n\n', { headers });
    };
    const transport = new EndpointTransport({ config, fetch, currentOwner });
    await transport.start();
    await transport.resumeStream('0');
    await vi.advanceTimersByTimeAsync(2_100);
    expect(opened).toBe(5);
    await transport.close();
    await vi.advanceTimersByTimeAsync(2_100);
    expect(opened).toBe(5);
  });
});
