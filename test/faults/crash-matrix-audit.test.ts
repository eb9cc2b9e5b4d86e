/** No crash can separate an action from its entry in the audit trail. */
import { auditScenarios } from './audit-scenarios.ts';
import { crashEverywhere } from './matrix.ts';

crashEverywhere(auditScenarios);
