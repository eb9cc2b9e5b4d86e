import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { EndpointTransport } from '../../src/mcp/endpoint-transport.ts';

beforeEach(() => vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }));
afterEach(() => vi.useRealTimers());

const config = { url: 'https://x.example/mcp' };
const sender = () => undefined;

describe('the stream of an endpoint', () => {
  it('that ends at once, and wants to be opened again at once, is opened now and then', async () => {
    let opened = 0;
    const fetch = async () => {
      opened += 1;
      const headers = { 'content-type': 'text/event-stream' };
      return new Response('retry: 0\nid: 1\ndata: \n\n', { headers });
    };
    const transport = new EndpointTransport({ config, fetch, sender });
    await transport.start();
    await transport.resumeStream('0');
    await vi.advanceTimersByTimeAsync(2_100);
    expect(opened).toBe(5);
    await transport.close();
    await vi.advanceTimersByTimeAsync(2_100);
    expect(opened).toBe(5);
  });
});
