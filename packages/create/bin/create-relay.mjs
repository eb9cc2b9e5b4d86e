#!/usr/bin/env node
import { runCreate } from '../src/index.mjs';

process.exitCode = await runCreate(process.argv.slice(2));
