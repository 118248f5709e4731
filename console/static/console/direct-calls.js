// Calls without a hub: the ledger of this page, questions of servers, and rounds of input.

import { RpcError, TimedOut } from "./mcp-client.js";
import { timeId } from "./direct-trace.js";

const MOST_ROUNDS = 10;
const ROUND_PAUSE_MS = 100;
const KINDS = { "elicitation/create": "form", "sampling/createMessage": "sampling", "roots/list": "roots" };
const REFUSED = { code: -1, message: "The user refused." };

export class DirectCalls {
  constructor(tell) {
    Object.assign(this, { tell, calls: new Map(), questions: new Map(), watchers: new Set() });
  }

  // ------------------------------------------------------------------ calls

  /** Start a call of a server; returns at once. */
  start(server, method, params, timeoutMs) {
    const call = {
      id: timeId(), server: server.id, method, target: params.name ?? params.uri ?? "", status: "running", attempt: 1, isToolError: false,
      createdAt: new Date().toISOString(), sentAt: new Date().toISOString(), finishedAt: null, delivery: "outcome_unknown", problem: null, outcome: null,
    };
    this.calls.set(call.id, { call, stop: new AbortController() });
    this.run(server, call, params, timeoutMs);
    this.change(call, {}, "call.started");
    return call;
  }

  async run(server, call, params, timeoutMs) {
    const { stop } = this.calls.get(call.id);
    try {
      const result = await this.rounds(server, call, params, { callId: call.id, timeoutMs, signal: stop.signal, onProgress: (told) => this.tell({ type: "call.progress", id: call.id, ...told }) });
      this.change(call, { status: "succeeded", delivery: "answered", isToolError: result?.isError === true, outcome: { result } }, "call.finished");
    } catch (error) {
      this.change(call, endOf(error, stop.signal), "call.finished");
    }
    this.forgetQuestions((one) => one.callId === call.id);
  }

  /** Send a call, and again with answers as often as the server asks in its result (2026-07-28). */
  async rounds(server, call, params, options) {
    let result = await server.client.request(call.method, params, options);
    for (let round = 0; result?.resultType === "input_required"; round += 1) {
      if (round === MOST_ROUNDS) throw new RpcError({ code: -32603, message: "The server asked for input again and again." });
      const inputResponses = await this.askAll(server, call, result.inputRequests ?? {}, options.signal);
      const state = result.requestState === undefined ? {} : { requestState: result.requestState };
      const answers = Object.keys(inputResponses).length ? { inputResponses } : {};
      result = await server.client.request(call.method, { ...params, ...answers, ...state }, options);
    }
    return result;
  }

  async askAll(server, call, requests, signal) {
    const gaveUp = new Promise((_, reject) => { signal.addEventListener("abort", () => reject(signal.reason)); });
    const answers = Object.entries(requests).map(async ([key, { method, params }]) => {
      const reply = this.ask(server.id, call.id, method, params ?? {});
      if (reply === null) throw new RpcError({ code: -32601, message: `The server asks for ${method}, which this page does not know.` });
      return [key, await reply];
    });
    if (answers.length === 0) answers.push(pause()); // only a state: send it again, but not at once
    return Object.fromEntries((await Promise.race([Promise.all(answers), gaveUp])).filter(Boolean));
  }

  cancel(id) {
    const { call, stop } = this.calls.get(id);
    stop.abort(new DOMException("Cancelled by the user.", "AbortError"));
    return call;
  }

  /** The call once it is another than it was, or after `seconds`. */
  async whenChanged(id, seconds) {
    const { call } = this.calls.get(id);
    if (call.finishedAt) return { ...call };
    await new Promise((resolve) => {
      this.watchers.add(resolve);
      setTimeout(resolve, seconds * 1000);
    });
    return { ...call };
  }

  change(call, fields, type) {
    Object.assign(call, fields, type === "call.finished" ? { finishedAt: new Date().toISOString() } : {});
    for (const wake of this.watchers) wake();
    this.watchers.clear();
    this.tell({ type, call: { ...call, outcome: undefined } });
  }

  // ------------------------------------------------------------------ questions

  /** Ask the user; resolves with what the protocol wants, or null for a method nobody knows. */
  ask(server, callId, method, params) {
    const kind = method === "elicitation/create" && params.mode === "url" ? "url" : KINDS[method];
    if (!kind) return null;
    const question = {
      id: timeId(), server, callId, kind, state: "open", message: String(params.message ?? ""), requestedSchema: params.requestedSchema ?? null,
      url: kind === "url" ? String(params.url ?? "") : null, params: kind === "form" || kind === "url" ? null : params,
      error: null, isConsented: false, createdAt: new Date().toISOString(), expiresAt: null,
    };
    return new Promise((resolve, reject) => {
      this.questions.set(question.id, { question, resolve, reject });
      this.mark(callId, "input_required");
      this.tell({ type: "elicitation.created" });
    });
  }

  answer(id, { action, content }) {
    const { question, resolve, reject } = this.questions.get(id);
    this.questions.delete(id);
    const isElicitation = question.kind === "form" || question.kind === "url";
    if (isElicitation) resolve(content === undefined ? { action } : { action, content });
    else if (action === "accept") resolve(content);
    else reject(new RpcError(REFUSED));
    if (![...this.questions.values()].some((one) => one.question.callId === question.callId)) this.mark(question.callId, "running");
    this.tell({ type: "elicitation.answered" });
    return question;
  }

  forgetQuestions(isGone) {
    for (const [id, { question, reject }] of this.questions) {
      if (!isGone(question)) continue;
      this.questions.delete(id);
      reject(new RpcError(REFUSED));
      this.tell({ type: "elicitation.expired" });
    }
  }

  mark(callId, status) {
    const kept = this.calls.get(callId);
    if (kept && !kept.call.finishedAt) this.change(kept.call, { status }, "call.updated");
  }

  get open() { return [...this.questions.values()].map(({ question }) => question); }
}

const pause = () => new Promise((resolve) => { setTimeout(resolve, ROUND_PAUSE_MS); });

function endOf(error, signal) {
  if (signal.aborted) return { status: "cancelled", problem: { code: "cancelled", detail: "" } };
  if (error instanceof RpcError) return { status: "failed", delivery: "answered", outcome: { error: error.rpc } };
  const code = error instanceof TimedOut ? "timeout" : "outcome_unknown";
  return { status: code === "timeout" ? "failed" : code, problem: { code, detail: error.message } };
}
