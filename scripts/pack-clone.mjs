// `npm run pack`: on any Node, also before anything is installed.
import { runNode, setUp } from './setup.mjs';

setUp();
runNode(['scripts/pack-project.ts', ...process.argv.slice(2)]);
