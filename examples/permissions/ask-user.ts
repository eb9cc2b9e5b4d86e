/** Asks whoever sits at the terminal, one question after the other. */
import { createInterface } from 'node:readline';

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

export async function askUser(question: string): Promise<string> {
  process.stdout.write(`${question} `);
  const { value } = await lines.next();
  const answer = (value ?? 'no').trim();
  console.log(process.stdin.isTTY ? '' : answer);
  return answer;
}

/** The process is not kept waiting for more. */
export function hangUp(): void {
  process.stdin.destroy();
}
