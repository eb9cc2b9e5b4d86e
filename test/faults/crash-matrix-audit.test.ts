/** Crashes between a deed and its entry in the audit trail: there is no such place. */
import { auditScenarios } from './audit-scenarios.ts';
import { crashEverywhere } from './matrix.ts';

crashEverywhere(auditScenarios);
