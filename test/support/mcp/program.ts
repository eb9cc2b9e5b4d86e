/** The tool server as a program: `program.ts <during|instead> <trace> [asking ms]`. */
import { serveStdio, StdioServerTransport } from '@modelcontextprotocol/server/stdio';
import { createToolServer } from './tool-server.ts';

const [asks, trace = '', askingMs = '60000'] = process.argv.slice(2);

if (asks === 'instead') {
  serveStdio(() => createToolServer({ asks, trace }));
} else {
  const server = createToolServer({ asks: 'during', trace, askingMs: Number(askingMs) });
  await server.connect(new StdioServerTransport());
}
