export { bubblewrapProblem, inBubblewrap, protectPaths, type Sandbox } from './bwrap.ts';
export { cleanEnvironment, readerEnvironment, refusedVariable } from './environment.ts';
export { findProgram } from './find-program.ts';
export { lineLimits, type LineLimits, LineReader } from './line-reader.ts';
export { isWithin, realPathOf } from './paths.ts';
export { type CommandLine, type ExitStatus, ProcessGroup } from './process-group.ts';
export {
  killOrphanProcesses,
  killOwnProcesses,
  memoryByMarker,
  ownMarker,
  startTimeOf,
} from './process-marker.ts';
