// The history: messages paired to exchanges, each message once, bounded in number and size.

const MOST_MESSAGES = 20_000;
const MOST_BYTES = 20 << 20;

/** One request with its answer, or one message that needs none. */
class Entry {
  constructor(row) {
    Object.assign(this, { key: row.id, request: null, answer: null, isPinned: false });
    this.take(row);
  }

  take(row) {
    if (row.type === "response" || row.type === "error") this.answer = row;
    else this.request = row;
    this.cached = null;
  }

  get first() { return this.request ?? this.answer; }
  get server() { return this.first.server; }
  get method() { return this.first.method || (this.first.type === "invalid" ? "(no JSON-RPC)" : "(unknown)"); }
  get call() { return this.first.call; }
  get at() { return this.first.at; }
  get duration() { return this.answer?.durationMs ?? null; }
  get size() { return (this.request?.size ?? 0) + (this.answer?.size ?? 0); }
  get isNotification() { return this.request?.type === "notification"; }

  /** Whether the first message of it went from the hub to the server. */
  get wentUp() {
    return (this.first.direction === "sent") === (this.first === this.request);
  }

  /** "ok", "error", "waiting" or "note". */
  get status() {
    if (this.request?.type === "invalid" || this.answer?.error || this.request?.error) return "error";
    if (this.answer) return "ok";
    return this.isNotification ? "note" : "waiting";
  }

  /** What a call is about: the tool, the URI, the prompt. */
  get target() {
    const params = this.request?.content?.params;
    return params?.name ?? params?.uri ?? "";
  }

  /** Everything that a text filter looks at; made when it is first asked for. */
  get text() {
    this.cached ??= JSON.stringify([this.server, this.method, this.request?.content, this.answer?.content]).toLowerCase();
    return this.cached;
  }
}

export class History {
  constructor(onChange) {
    this.onChange = onChange;
    this.clear();
  }

  clear() {
    this.rows = new Map();
    this.entries = [];
    this.open = new Map();
    this.bytes = 0;
    this.oldestKept = this.newest; // what was cleared does not come back
    this.onChange();
  }

  get size() { return this.rows.size; }
  has(id) { return this.rows.has(id); }

  /** Add messages in any order; one that is known already is left out. */
  add(rows) {
    const fresh = rows.filter((row) => !this.rows.has(row.id) && row.id > (this.oldestKept ?? ""));
    if (fresh.length === 0) return;
    fresh.sort(byId);
    const isNewer = this.entries.length === 0 || fresh[0].id > (this.newest ?? "");
    for (const row of fresh) {
      this.rows.set(row.id, row);
      this.bytes += row.size;
      if (isNewer) this.pair(row);
    }
    if (!isNewer) this.pairAll();
    if (fresh.at(-1).id > (this.newest ?? "")) this.newest = fresh.at(-1).id;
    this.drop();
    this.onChange();
  }

  pair(row) {
    const isAnswer = row.type === "response" || row.type === "error";
    const key = `${row.server} ${row.call} ${row.attempt} ${row.rpcId} ${(row.direction === "sent") !== isAnswer}`;
    const waiting = isAnswer ? this.open.get(key) : undefined;
    if (waiting) {
      waiting.take(row);
      this.open.delete(key);
      return;
    }
    const entry = new Entry(row);
    this.entries.push(entry);
    if (row.type === "request") this.open.set(key, entry);
  }

  /** Older messages came: pair again from the start, keeping the pins. */
  pairAll() {
    const pinned = new Set(this.entries.filter((entry) => entry.isPinned).map((entry) => entry.key));
    this.rows = new Map([...this.rows.values()].sort(byId).map((row) => [row.id, row]));
    this.entries = [];
    this.open.clear();
    for (const row of this.rows.values()) this.pair(row);
    for (const entry of this.entries) entry.isPinned = pinned.has(entry.key);
  }

  /** Forget the oldest beyond the limits; pinned entries stay. */
  drop() {
    if (this.rows.size <= MOST_MESSAGES && this.bytes <= MOST_BYTES) return;
    const kept = [];
    let index = 0;
    for (const entry of this.entries) {
      const isOver = this.rows.size > MOST_MESSAGES * 0.9 || this.bytes > MOST_BYTES * 0.9;
      index += 1;
      if (!isOver) { kept.push(entry, ...this.entries.slice(index)); break; }
      if (entry.isPinned) { kept.push(entry); continue; }
      for (const row of [entry.request, entry.answer]) {
        if (!row) continue;
        this.rows.delete(row.id);
        this.bytes -= row.size;
        this.oldestKept = row.id > (this.oldestKept ?? "") ? row.id : this.oldestKept;
      }
    }
    this.entries = kept;
  }

  /** Put the full content in place of one that was left out of a list. */
  complete(row) {
    this.rows.set(row.id, row);
    const entry = this.entries.find((one) => one.request?.id === row.id || one.answer?.id === row.id);
    entry?.take(row);
    this.onChange();
  }
}

const byId = (a, b) => (a.id < b.id ? -1 : 1); // ids are UUIDv7: their order is the order in time
