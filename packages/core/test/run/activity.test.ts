import { describe, expect, it } from 'vitest';
import { Activity } from '../../src/run/activity.ts';

const never = new Promise<never>(() => undefined);

const enough = new Error('Enough');

describe('an activity', () => {
  it('belongs to an agent and runs until it is stopped', () => {
    const activity = new Activity('a1');
    expect(activity.agentId).toBe('a1');
    expect([activity.stopped, activity.signal.aborted]).toEqual([false, false]);
    activity.stop(enough);
    expect([activity.stopped, activity.signal.aborted]).toEqual([true, true]);
  });

  it('passes the reason of the stop to its signal, and keeps the first reason', () => {
    const activity = new Activity('a1');
    const heard: unknown[] = [];
    activity.signal.addEventListener('abort', () => heard.push(activity.signal.reason));
    activity.stop(enough);
    activity.stop(new Error('Again'));
    expect(heard).toEqual([enough]);
    expect(activity.signal.reason).toBe(enough);
  });

  it('returns the value of a promise while it is not stopped', async () => {
    const activity = new Activity('a1');
    expect(await activity.unlessStopped(Promise.resolve(1))).toBe(1);
    expect(await activity.unlessStopped(Promise.resolve(2))).toBe(2);
  });

  it('rejects like the promise while it is not stopped', async () => {
    const failing = new Activity('a1').unlessStopped(Promise.reject(new Error('Broken')));
    await expect(failing).rejects.toThrow('Broken');
  });

  it('is no longer waited for once it is stopped, even if it does not listen', async () => {
    const activity = new Activity('a1');
    const waiting = activity.unlessStopped(never);
    activity.stop(enough);
    expect(await waiting).toBeUndefined();
  });

  it('is not waited for at all after it was stopped', async () => {
    const activity = new Activity('a1');
    activity.stop(enough);
    expect(await activity.unlessStopped(never)).toBeUndefined();
    expect(await activity.unlessStopped(Promise.resolve(1))).toBeUndefined();
  });

  it('causes no unhandled rejection when the promise rejects after the stop', async () => {
    const unhandled: unknown[] = [];
    const note = (reason: unknown) => unhandled.push(reason);
    process.on('unhandledRejection', note);
    const late = Promise.withResolvers<number>();
    const activity = new Activity('a1');
    const waiting = activity.unlessStopped(late.promise);
    activity.stop(enough);
    const ignored = activity.unlessStopped(Promise.reject(new Error('Too late')));
    late.reject(new Error('Late'));
    expect([await waiting, await ignored]).toEqual([undefined, undefined]);
    await new Promise((resolve) => setTimeout(resolve, 5));
    process.off('unhandledRejection', note);
    expect(unhandled).toEqual([]);
  });
});
