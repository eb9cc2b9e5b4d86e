// Loaded before the server: its clock is behind by the number of milliseconds in a file, so that a day of
// work happens within a minute.
import { readFileSync, watchFile, writeFileSync } from 'node:fs';

const file = process.env.SCREENSHOT_CLOCK;
const RealDate = Date;
let behindMs = 0;
const read = () => {
  const text = readFileSync(file, 'utf8');
  behindMs = Number(text);
  // From now on.
  writeFileSync(`${file}.read`, text);
};
read();
watchFile(file, { interval: 20 }, read).unref();
globalThis.Date = class extends RealDate {
  constructor(...args) {
    if (args.length === 0) super(RealDate.now() - behindMs);
    else super(...args);
  }

  static now() {
    return RealDate.now() - behindMs;
  }
};
