/**
 * `node:http` as CommonJS loads it. An `import` of it reads every export, and one of them makes Node load
 * its whole `fetch`: a tenth of the server's start.
 */
export const { Agent, request } = process.getBuiltinModule('node:http');
