/** Asks the user at the terminal, one question at a time. */
import { createInterface } from 'node:readline';

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

export async function askUser(question: string): Promise<string> {
  process.stdout.write(`${question} `);
  const { value } = await lines.next();
  const answer = (value ?? 'no').trim();
  console.log(process.stdin.isTTY ? '' : answer);
  return answer;
}

/** Closes standard input, so the process can exit. */
export function hangUp(): void {
  process.stdin.destroy();
}
