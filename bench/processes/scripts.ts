/** How the scripted provider answers, by the name of the model. */
export interface Script {
  readonly tokens: number;
  readonly tokensPerWrite: number;
  /** The time between two writes; 0 for as fast as it goes. */
  readonly everyMs: number;
  /** Answers although it is offered tools. */
  readonly callsNoTools?: true;
}

export const scripts = {
  'small-writes': { tokens: 200, tokensPerWrite: 1, everyMs: 0 },
  'large-writes': { tokens: 200, tokensPerWrite: 10, everyMs: 0 },
  paced: { tokens: 300, tokensPerWrite: 1, everyMs: 10 },
  tool: { tokens: 50, tokensPerWrite: 1, everyMs: 0 },
  /** 512 bytes. */
  turn: { tokens: 75, tokensPerWrite: 1, everyMs: 0 },
  'paced-turn': { tokens: 75, tokensPerWrite: 1, everyMs: 2 },
  reply: { tokens: 1, tokensPerWrite: 1, everyMs: 0, callsNoTools: true },
  short: { tokens: 1, tokensPerWrite: 1, everyMs: 0 },
} as const satisfies Record<string, Script>;

export function word(n: number): string {
  return ` word${n % 97}`;
}

export function answerOf({ tokens }: Script): string {
  return Array.from({ length: tokens }, (_, n) => word(n)).join('');
}
