/** The workshop as a program: `program.ts <during|instead> <trace> [asking ms]`. */
import { serveStdio, StdioServerTransport } from '@modelcontextprotocol/server/stdio';
import { createWorkshop } from './workshop.ts';

const [asks, trace = '', askingMs = '60000'] = process.argv.slice(2);

if (asks === 'instead') {
  serveStdio(() => createWorkshop({ asks, trace }));
} else {
  const workshop = createWorkshop({ asks: 'during', trace, askingMs: Number(askingMs) });
  await workshop.connect(new StdioServerTransport());
}
