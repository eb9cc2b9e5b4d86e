/** What the agent of a native session writes right now: its turn is a run, whose stream has each token. */
import { useEffect, useState } from 'react';
import { client } from '../../../api/client.ts';
import { useVisible } from '../visible.ts';

interface Token {
  readonly seq: number;
  readonly text: string;
}

/** The answer that is being written; empty between two answers. */
export function useLiveText(runId: string | undefined): string {
  const isVisible = useVisible();
  const [text, setText] = useState('');
  useEffect(() => {
    setText('');
    if (runId === undefined || !isVisible) return undefined;
    const stop = new AbortController();
    void follow(runId, stop.signal, setText);
    return () => stop.abort();
  }, [runId, isVisible]);
  return text;
}

async function follow(
  runId: string,
  signal: AbortSignal,
  show: (text: string) => void,
): Promise<void> {
  let tokens: Token[] = [];
  let isDue = false;
  const showSoon = () => {
    if (isDue) return;
    isDue = true;
    // Once per frame: a model writes faster than a screen shows.
    requestAnimationFrame(() => {
      isDue = false;
      if (!signal.aborted) show(tokens.map(({ text }) => text).join(''));
    });
  };
  try {
    for await (const event of client.runs.stream(runId, { signal })) {
      if (event.type === 'token') tokens.push(event);
      else if (event.type === 'reset') tokens = tokens.filter(({ seq }) => seq <= event.after);
      // The answer is complete: the journal of the session has it.
      else if (event.type === 'tool_call' || event.type === 'message' || event.type === 'done') {
        tokens = [];
      } else continue;
      showSoon();
    }
  } catch {
    // The journal of the session has the whole answer later.
    if (!signal.aborted) show('');
  }
}
