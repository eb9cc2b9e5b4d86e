/**
 * A store whose process dies at a chosen write. Count the writes of a scenario first, then run it
 * again once for each of them and either side of it, restart on the same inner store, and compare.
 *
 * From the crash on no call comes back, not even one that was already on its way: a caller that waits for
 * it is as dead as the process. What the inner store had taken by then stays stored.
 *
 * Lease renewals are not counted: they come by the clock, and the k-th write of a scenario must be
 * the same one every time.
 */
import type {
  ActionStore,
  Append,
  AuditTrail,
  ChannelStore,
  MessageStore,
  PolicyStore,
  SessionDirectory,
  SessionStore,
  SessionWrite,
  SystemStore,
  TenantStore,
  VectorStore,
  WebhookStore,
} from '@relay/core';

export interface Fault {
  /** Which write to die at, counted from 1; left out, nothing ever happens. */
  readonly crashAt?: number;
  readonly when?: 'before' | 'after';
}

export interface FaultyStore extends SystemStore {
  /** A label for each write so far, in order; their number is the number of crash points. */
  readonly writes: readonly string[];
  /** Resolves at the moment of the crash. */
  readonly crashed: Promise<void>;
}

export function createFaultyStore(inner: SystemStore, fault: Fault = {}): FaultyStore {
  const process = new MortalProcess(fault);
  const { read, write } = process;
  return {
    writes: process.writes,
    crashed: process.crashed,
    sessions: faultyDirectory(inner.sessions, process),
    tenant: (id) => faultyTenant(inner.tenant(id), process),
    deliveries: {
      claim: (by) => write('deliveries.claim', () => inner.deliveries.claim(by)),
      finish: (delivery, result) =>
        write('deliveries.finish', () => inner.deliveries.finish(delivery, result)),
      sweep: (by) => write('deliveries.sweep', () => inner.deliveries.sweep(by)),
      find: (id) => read(() => inner.deliveries.find(id)),
    },
    ensureTenant: (tenant) => write('ensureTenant', () => inner.ensureTenant(tenant)),
    tenantOfRun: (runId) => read(() => inner.tenantOfRun(runId)),
    lastSeqs: (runIds) => read(() => inner.lastSeqs(runIds)),
    findTenant: (name) => read(() => inner.findTenant(name)),
    workspaces: () => read(() => inner.workspaces()),
    stats: (tenantId) => read(() => inner.stats(tenantId)),
    tenantIds: () => read(() => inner.tenantIds()),
    pausedTenants: () => read(() => inner.pausedTenants()),
    addKey: (key, hash, audit) => write('addKey', () => inner.addKey(key, hash, audit)),
    redeemLink: (link, audit) => write('redeemLink', () => inner.redeemLink(link, audit)),
    rotateKey: (rotation, audit) => write('rotateKey', () => inner.rotateKey(rotation, audit)),
    recordKeyUses: (uses) => write('recordKeyUses', () => inner.recordKeyUses(uses)),
    addFirstKey: (key, hash, audit) =>
      write('addFirstKey', () => inner.addFirstKey(key, hash, audit)),
    findKey: (hash, onDamage) => read(() => inner.findKey(hash, onDamage)),
    sealedCredentials: (page) => read(() => inner.sealedCredentials(page)),
    resealCredential: (row) => write('resealCredential', () => inner.resealCredential(row)),
    onDamagedRow: (listener) => inner.onDamagedRow(listener),
    damagedRows: () => read(() => inner.damagedRows()),
    resignRows: () => write('resignRows', () => inner.resignRows()),
    tenantsToSeal: (page) => read(() => inner.tenantsToSeal(page)),
    readMetadata: (name) => read(() => inner.readMetadata(name)),
    writeMetadata: (name, value, options) =>
      write('writeMetadata', () => inner.writeMetadata(name, value, options)),
    claimRun: (runId, claim, options) =>
      write('claimRun', () => inner.claimRun(runId, claim, options)),
    suspectRuns: (now, limit) => read(() => inner.suspectRuns(now, limit)),
    renewLeases: (owner, renewal) => read(() => inner.renewLeases(owner, renewal)),
    runsWithCommands: (runIds) => read(() => inner.runsWithCommands(runIds)),
    releaseRun: (runId, epoch) => write('releaseRun', () => inner.releaseRun(runId, epoch)),
    dueRuns: (now, limit) => read(() => inner.dueRuns(now, limit)),
    releaseAllLeases: () => write('releaseAllLeases', () => inner.releaseAllLeases()),
    deleteExpiredMemories: (now, limit) =>
      write('deleteExpiredMemories', () => inner.deleteExpiredMemories(now, limit)),
    deleteSignIns: (before, limit) =>
      write('deleteSignIns', () => inner.deleteSignIns(before, limit)),
    pruneRuns: (before, limit) => write('pruneRuns', () => inner.pruneRuns(before, limit)),
    heartbeatNode: (by) => read(() => inner.heartbeatNode(by)),
    removeNode: (node) => read(() => inner.removeNode(node)),
    orphanedConnections: (node, now, after) =>
      read(() => inner.orphanedConnections(node, now, after)),
    listen: (listener) => inner.listen(listener),
    ping: () => read(() => inner.ping()),
    close: () => read(() => inner.close()),
  };
}

function faultyTenant(inner: TenantStore, { read, write }: MortalProcess): TenantStore {
  return {
    tenantId: inner.tenantId,
    audit: faultyTrail(inner.audit, { read, write }),
    policies: faultyPolicies(inner.policies, { read, write }),
    webhooks: faultyWebhooks(inner.webhooks, { read, write }),
    vectors: faultyVectors(inner.vectors, { read, write }),
    sessions: faultySessions(inner.sessions, { read, write }),
    messages: faultyMessages(inner.messages, { read, write }),
    channels: faultyChannels(inner.channels, { read, write }),
    actions: faultyActions(inner.actions, { read, write }),
    createRun: (creation) => write('createRun', () => inner.createRun(creation)),
    readRun: (runId) => read(() => inner.readRun(runId)),
    findIdempotencyKey: (key, now) => read(() => inner.findIdempotencyKey(key, now)),
    readRunHead: (runId) => read(() => inner.readRunHead(runId)),
    listRuns: (filter, page) => read(() => inner.listRuns(filter, page)),
    append: (append) => write(labelOf(append), () => inner.append(append)),
    readEvents: (runId, range) => read(() => inner.readEvents(runId, range)),
    readBudgetUse: (...args) => read(() => inner.readBudgetUse(...args)),
    reserve: (reservation) => write('reserve', () => inner.reserve(reservation)),
    readPage: (runId, range) => read(() => inner.readPage(runId, range)),
    readWorkflow: (id) => read(() => inner.readWorkflow(id)),
    readUsage: (scope) => read(() => inner.readUsage(scope)),
    readStats: (range) => read(() => inner.readStats(range)),
    listDecisions: (status, range, limit) => read(() => inner.listDecisions(status, range, limit)),
    countOpenRuns: (scope) => read(() => inner.countOpenRuns(scope)),
    readApproval: (approvalId) => read(() => inner.readApproval(approvalId)),
    listApprovals: (filter, page) => read(() => inner.listApprovals(filter, page)),
    decideApproval: (decision) => write('decideApproval', () => inner.decideApproval(decision)),
    changeVotes: (change) => write('changeVotes', () => inner.changeVotes(change)),
    readGrants: (scope) => read(() => inner.readGrants(scope)),
    readClientCall: (runId, id) => read(() => inner.readClientCall(runId, id)),
    postResult: (posted) => write('postResult', () => inner.postResult(posted)),
    claimCall: (claim) => write('claimCall', () => inner.claimCall(claim)),
    addGrant: (grant, audit) => write('addGrant', () => inner.addGrant(grant, audit)),
    readGrant: (id) => read(() => inner.readGrant(id)),
    listGrants: (filter, page) => read(() => inner.listGrants(filter, page)),
    revokeGrant: (id, at, audit) => write('revokeGrant', () => inner.revokeGrant(id, at, audit)),
    replaceCheckpoint: (runId, change) =>
      write('replaceCheckpoint', () => inner.replaceCheckpoint(runId, change)),
    postRunCommand: (runId, queued, audit) =>
      write('postRunCommand', () => inner.postRunCommand(runId, queued, audit)),
    readInbox: (runId) => read(() => inner.readInbox(runId)),
    readConversation: (id) => read(() => inner.readConversation(id)),
    findIds: (kind, match, limit) => read(() => inner.findIds(kind, match, limit)),
    listConversations: (filter, page) => read(() => inner.listConversations(filter, page)),
    countEndedRuns: (id) => read(() => inner.countEndedRuns(id)),
    endedRuns: (id, positions) => read(() => inner.endedRuns(id, positions)),
    findConnection: (id) => read(() => inner.findConnection(id)),
    closeConnection: (id) => write('closeConnection', () => inner.closeConnection(id)),
    readTenant: () => read(() => inner.readTenant()),
    updateTenant: (change, audit) => write('updateTenant', () => inner.updateTenant(change, audit)),
    listKeys: (page) => read(() => inner.listKeys(page)),
    readKey: (id) => read(() => inner.readKey(id)),
    revokeKey: (id, at, audit) => write('revokeKey', () => inner.revokeKey(id, at, audit)),
    putCredential: (record, audit) =>
      write('putCredential', () => inner.putCredential(record, audit)),
    readCredential: (provider) => read(() => inner.readCredential(provider)),
    listCredentials: () => read(() => inner.listCredentials()),
    deleteCredential: (provider, audit) =>
      write('deleteCredential', () => inner.deleteCredential(provider, audit)),
    addMemory: (record, once) => write('addMemory', () => inner.addMemory(record, once)),
    listMemories: (filter, page) => read(() => inner.listMemories(filter, page)),
    searchMemories: (search) => read(() => inner.searchMemories(search)),
    deleteMemory: (id, within) => write('deleteMemory', () => inner.deleteMemory(id, within)),
    clearMemories: (namespace, limit) =>
      write('clearMemories', () => inner.clearMemories(namespace, limit)),
  };
}

function faultyTrail(
  inner: AuditTrail,
  { read, write }: Pick<MortalProcess, 'read' | 'write'>,
): AuditTrail {
  return {
    add: (entries) => write('audit.add', () => inner.add(entries)),
    unsealed: (limit) => read(() => inner.unsealed(limit)),
    seal: (sealing) => write('audit.seal', () => inner.seal(sealing)),
    head: () => read(() => inner.head()),
    list: (filter, page) => read(() => inner.list(filter, page)),
    read: (range) => read(() => inner.read(range)),
    seals: (range) => read(() => inner.seals(range)),
  };
}

function faultyPolicies(
  inner: PolicyStore,
  { read, write }: Pick<MortalProcess, 'read' | 'write'>,
): PolicyStore {
  return {
    inForce: (...agents) => read(() => inner.inForce(...agents)),
    read: (agent) => read(() => inner.read(agent)),
    put: (policy, audit) => write('policies.put', () => inner.put(policy, audit)),
    versions: (agent, page) => read(() => inner.versions(agent, page)),
  };
}

function faultyWebhooks(
  inner: WebhookStore,
  { read, write }: Pick<MortalProcess, 'read' | 'write'>,
): WebhookStore {
  return {
    add: (webhook, audit) => write('webhooks.add', () => inner.add(webhook, audit)),
    read: (id) => read(() => inner.read(id)),
    list: (page) => read(() => inner.list(page)),
    remove: (id, audit) => write('webhooks.remove', () => inner.remove(id, audit)),
    deliveries: (id, page) => read(() => inner.deliveries(id, page)),
    redeliver: (redelivery, audit) =>
      write('webhooks.redeliver', () => inner.redeliver(redelivery, audit)),
  };
}

function faultyVectors(
  inner: VectorStore,
  { read, write }: Pick<MortalProcess, 'read' | 'write'>,
): VectorStore {
  return {
    claim: (by) => write('vectors.claim', () => inner.claim(by)),
    release: (ids) => write('vectors.release', () => inner.release(ids)),
    put: (vector) => write('vectors.put', () => inner.put(vector)),
    has: (space) => read(() => inner.has(space)),
    nearest: (search) => read(() => inner.nearest(search)),
  };
}

function faultyDirectory(
  inner: SessionDirectory,
  { read, write }: Pick<MortalProcess, 'read' | 'write'>,
): SessionDirectory {
  return {
    counts: (now, tenantId) => read(() => inner.counts(now, tenantId)),
    findToken: (hash) => read(() => inner.findToken(hash)),
    due: (now, limit) => read(() => inner.due(now, limit)),
    dueHandlers: (now, limit) => read(() => inner.dueHandlers(now, limit)),
    dueInvocations: (now, limit) => read(() => inner.dueInvocations(now, limit)),
    orphans: (node, now, page) => read(() => inner.orphans(node, now, page)),
    ofHarness: (harness, page) => read(() => inner.ofHarness(harness, page)),
    lastSeqs: (ids) => read(() => inner.lastSeqs(ids)),
    versions: (ids) => read(() => inner.versions(ids)),
    prune: (before, limit) => write('sessions.prune', () => inner.prune(before, limit)),
  };
}

function faultySessions(
  inner: SessionStore,
  { read, write }: Pick<MortalProcess, 'read' | 'write'>,
): SessionStore {
  return {
    create: (session, also) => write('sessions.create', () => inner.create(session, also)),
    read: (id) => read(() => inner.read(id)),
    readByHandle: (handle) => read(() => inner.readByHandle(handle)),
    readReleased: (handle) => read(() => inner.readReleased(handle)),
    readByRun: (runId) => read(() => inner.readByRun(runId)),
    list: (filter, page) => read(() => inner.list(filter, page)),
    change: (change) => write(labelOfSession(change), () => inner.change(change)),
    readEvents: (id, range) => read(() => inner.readEvents(id, range)),
    readPage: (id, range) => read(() => inner.readPage(id, range)),
    openStream: (id, stream) => write('sessions.openStream', () => inner.openStream(id, stream)),
    claimStream: (id, stream) => write('sessions.claimStream', () => inner.claimStream(id, stream)),
    closeStream: (id, closed) => write('sessions.closeStream', () => inner.closeStream(id, closed)),
    openCommands: (id, limit) => read(() => inner.openCommands(id, limit)),
    readCommand: (id, commandId) => read(() => inner.readCommand(id, commandId)),
    readSnapshot: (id) => read(() => inner.readSnapshot(id)),
    remove: (id, removal) => write('sessions.remove', () => inner.remove(id, removal)),
  };
}

function labelOfSession({ changes }: SessionWrite): string {
  const types = changes.flatMap(({ events }) => events.map(({ type }) => type));
  return `sessions.change ${[...new Set(types)].join(' ')}`.trimEnd();
}

function faultyMessages(
  inner: MessageStore,
  { read, write }: Pick<MortalProcess, 'read' | 'write'>,
): MessageStore {
  return {
    read: (id, visibleTo) => read(() => inner.read(id, visibleTo)),
    channelsOf: (id) => read(() => inner.channelsOf(id)),
    received: (id, limit) => read(() => inner.received(id, limit)),
    list: (filter, page) => read(() => inner.list(filter, page)),
    participants: (thread) => read(() => inner.participants(thread)),
    findKey: (key, now) => read(() => inner.findKey(key, now)),
    edit: (edit, limit) => write('messages.edit', () => inner.edit(edit, limit)),
    withdraw: (id, at, change) => write('messages.withdraw', () => inner.withdraw(id, at, change)),
    readDelivery: (id) => read(() => inner.readDelivery(id)),
    deliveriesOf: (id) => read(() => inner.deliveriesOf(id)),
    listDeliveries: (filter, page) => read(() => inner.listDeliveries(filter, page)),
    inbox: (id, range) => read(() => inner.inbox(id, range)),
    unconsumed: (id, range) => read(() => inner.unconsumed(id, range)),
    sendable: (id, query) => read(() => inner.sendable(id, query)),
    nextAvailable: (id, now) => read(() => inner.nextAvailable(id, now)),
  };
}

function faultyChannels(
  inner: ChannelStore,
  { read, write }: Pick<MortalProcess, 'read' | 'write'>,
): ChannelStore {
  return {
    put: (channel, audit) => write('channels.put', () => inner.put(channel, audit)),
    read: (name) => read(() => inner.read(name)),
    list: (page) => read(() => inner.list(page)),
    members: (name) => read(() => inner.members(name)),
    channelsOf: (id) => read(() => inner.channelsOf(id)),
    addMember: (member, audit) => write('channels.addMember', () => inner.addMember(member, audit)),
    removeMember: (member, audit) =>
      write('channels.removeMember', () => inner.removeMember(member, audit)),
  };
}

function faultyActions(
  inner: ActionStore,
  { read, write }: Pick<MortalProcess, 'read' | 'write'>,
): ActionStore {
  return {
    add: (action, audit) => write('actions.add', () => inner.add(action, audit)),
    read: (name) => read(() => inner.read(name)),
    list: (page) => read(() => inner.list(page)),
    remove: (name, audit) => write('actions.remove', () => inner.remove(name, audit)),
    readInvocation: (id) => read(() => inner.readInvocation(id)),
    unsentInvocations: (id, limit) => read(() => inner.unsentInvocations(id, limit)),
    sentInvocations: (id, page) => read(() => inner.sentInvocations(id, page)),
  };
}

function labelOf({ events }: Append): string {
  return `append ${[...new Set(events.map(({ type }) => type))].join(' ')}`.trimEnd();
}

class MortalProcess {
  readonly writes: string[] = [];
  readonly crashed: Promise<void>;
  readonly #fault: Fault;
  readonly #dying = Promise.withResolvers<void>();
  #dead = false;

  constructor(fault: Fault) {
    this.#fault = fault;
    this.crashed = this.#dying.promise;
  }

  readonly read = async <Value>(call: () => Promise<Value>): Promise<Value> => {
    if (this.#dead) return never();
    try {
      const value = await call();
      return this.#dead ? never() : value;
    } catch (error) {
      if (this.#dead) return never();
      throw error;
    }
  };

  readonly write = async <Value>(label: string, call: () => Promise<Value>): Promise<Value> => {
    if (this.#dead) return never();
    const isLast = this.writes.push(label) === this.#fault.crashAt;
    if (isLast && this.#fault.when !== 'after') {
      this.#die();
      return never();
    }
    return this.read(async () => {
      try {
        return await call();
      } finally {
        if (isLast) this.#die();
      }
    });
  };

  #die(): void {
    this.#dead = true;
    this.#dying.resolve();
  }
}

function never<Value>(): Promise<Value> {
  return new Promise<Value>(() => undefined);
}
