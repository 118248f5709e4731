// One call from start to end: sent without waiting, followed by events and by the ledger.

import { Problem } from "./hub.js";

const POLL_SECONDS = 20;
const OPEN = new Set(["queued", "running", "input_required"]);

/**
 * Runs `request` = `{server, path, body, method, target}`; `onChange(run)` hears of every step.
 * `state`: sending, queued, running, input_required, then succeeded, failed, cancelled, …
 */
export class Run {
  constructor(store, request, onChange) {
    Object.assign(this, { store, request, onChange, state: "sending", id: null, result: null, problem: null });
    Object.assign(this, { startedAt: Date.now(), endedAt: null, progress: null, progressAt: null, logs: [], call: null });
    this.leave = [
      store.on("progress", (event) => this.onProgress(event)),
      store.on("log", (event) => this.onLog(event)),
      store.on("call", (call) => this.onCall(call)),
    ];
  }

  get isOpen() { return this.endedAt === null; }
  get elapsed() { return (this.endedAt ?? Date.now()) - this.startedAt; }

  async start() {
    try {
      const { path, body } = this.request;
      const headers = { Prefer: "respond-async" };
      const answer = await this.store.hub.post(path, body, { headers });
      this.id = answer.id;
      this.change(answer.status);
      await this.follow();
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      this.problem = problem;
      this.end("failed");
    }
  }

  /**
   * Long-poll the ledger until the end; a hub that goes away meanwhile is asked again. The first look does
   * not wait: what events told before the id was known here is in the ledger already.
   */
  async follow() {
    let failures = 0;
    let wait = 0;
    while (this.isOpen) {
      try {
        const call = await this.store.hub.get(`/calls/${this.id}`, { wait });
        failures = 0;
        wait = POLL_SECONDS;
        this.take(call);
      } catch (problem) {
        failures += 1;
        if (failures > 20 || [401, 403, 404].includes(problem.status)) throw problem;
        await new Promise((resolve) => { setTimeout(resolve, Math.min(5000, 250 * 2 ** failures)); });
      }
    }
  }

  take(call) {
    this.call = call;
    this.store.keepCall(call);
    if (OPEN.has(call.status)) {
      this.change(call.status);
      return;
    }
    const { outcome } = call;
    if (outcome && "result" in outcome) this.result = outcome.result;
    else this.problem = problemOf(call, outcome);
    this.end(call.status);
  }

  onProgress(event) {
    if (event.id !== this.id || !this.isOpen) return;
    this.progress = event;
    this.progressAt = Date.now();
    this.onChange(this);
  }

  onLog(event) {
    if (event.id !== this.id || event.id === null) return;
    this.logs.push(event);
    this.onChange(this);
  }

  onCall(call) {
    if (call.id === this.id && this.isOpen && OPEN.has(call.status)) this.change(call.status);
  }

  async cancel() {
    this.isCancelling = true;
    this.onChange(this);
    if (this.id) await this.store.hub.post(`/calls/${this.id}/cancel`);
  }

  change(state) {
    if (!this.isOpen) return;
    this.state = state;
    this.onChange(this);
  }

  end(state) {
    this.state = state;
    this.endedAt = Date.now();
    for (const leave of this.leave) leave();
    this.onChange(this);
  }
}

function problemOf(call, outcome) {
  const rpc = outcome?.error;
  const code = rpc ? "protocol_error" : (call.problem?.code ?? call.status);
  const title = {
    cancelled: "The call was cancelled", outcome_unknown: "Nobody knows how the call ended",
    expired: "The call was not answered in time", timeout: "The server did not answer in time",
  }[code] ?? (rpc ? "The server refused the call" : "The call failed");
  return new Problem({ status: 200, code, title, detail: call.problem?.detail ?? "", extra: rpc ? { rpc } : {} });
}
