import { handoffToolName } from '@relay/core';

const form = /^[a-zA-Z0-9_-]{1,64}$/;

/** Names are what providers accept, and never what every object has without being asked. */
export function checkToolName(name: string): void {
  if (!form.test(name)) {
    throw new TypeError(
      `A tool is named by 1 to 64 letters, digits, "_" or "-", not ${JSON.stringify(name)}`,
    );
  }
  if (name === handoffToolName) {
    throw new TypeError(`A tool cannot be named ${name}: agents hand off to each other by it`);
  }
  if (name in Object.prototype) throw new TypeError(`A tool cannot be named ${name}`);
}
