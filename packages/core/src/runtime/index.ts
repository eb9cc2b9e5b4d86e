export { AsyncQueue, type AsyncQueueOwner, type EventStream } from './async-queue.ts';
export { BackgroundLoop, type BackgroundLoopOptions } from './background-loop.ts';
export { Signal, type Timeout } from './signal.ts';
export { Ticker } from './ticker.ts';
