// The event socket: ticket, subscribe, replay from the last number, resync, and backoff.

const TOPICS = ["servers", "calls", "traces"];
const PING_MS = 25_000;
const SILENT_MS = 60_000;
const LONGEST_WAIT_MS = 15_000;
const CLOSED_FOR_GOOD = new Set([4401, 4403]);

/**
 * Keeps one socket open. `onEvent(event)` gets every event once and in order; `onGap()` is called
 * after each subscription, since messages of a time without a socket are in REST alone.
 */
export class EventStream {
  constructor(hub, { onEvent, onGap, onState }) {
    Object.assign(this, { hub, onEvent, onGap, onState, seq: null, failures: 0, socket: null });
    this.topics = TOPICS;
    this.wake = () => { if (!document.hidden && !this.socket) this.retryNow(); };
    document.addEventListener("visibilitychange", this.wake);
    addEventListener("online", this.wake);
  }

  start() {
    this.isStopped = false;
    this.open();
  }

  stop() {
    this.isStopped = true;
    document.removeEventListener("visibilitychange", this.wake);
    removeEventListener("online", this.wake);
    clearTimeout(this.timer);
    clearInterval(this.pulse);
    this.socket?.close();
  }

  retryNow() {
    if (this.isStopped) return;
    clearTimeout(this.timer);
    this.open();
  }

  async open() {
    if (this.isOpening || this.socket) return;
    this.isOpening = true;
    this.onState("connecting");
    try {
      const { ticket } = await this.hub.post("/ws-tickets");
      if (!this.isStopped) this.attach(new WebSocket(this.hub.socketUrl, ["mcphub.v1", `mcphub.ticket.${ticket}`]));
    } catch (problem) {
      if (problem.status === 401) this.onState("signed-out");
      else this.later();
    } finally {
      this.isOpening = false;
    }
  }

  attach(socket) {
    this.socket = socket;
    socket.addEventListener("message", ({ data }) => {
      this.heardAt = Date.now();
      this.receive(JSON.parse(data));
    });
    socket.addEventListener("close", ({ code }) => this.lost(socket, code));
    clearInterval(this.pulse);
    this.heardAt = Date.now();
    this.pulse = setInterval(() => this.ping(), PING_MS);
  }

  receive(event) {
    if (event.type === "hello") {
      this.subscribe();
    } else if (event.type === "subscribed") {
      this.failures = 0;
      this.seq ??= event.seq;
      this.onState("live");
      this.onGap();
    } else if (event.type === "resync") {
      this.seq = event.seq;
      this.onGap();
    } else if (event.seq !== undefined) {
      if (this.seq !== null && event.seq <= this.seq) return; // a replay tells it again
      this.seq = event.seq;
      this.onEvent(event);
    }
  }

  subscribe() {
    const since = this.seq === null ? {} : { since: this.seq };
    this.socket.send(JSON.stringify({ type: "subscribe", topics: this.topics, ...since }));
  }

  ping() {
    if (Date.now() - this.heardAt > SILENT_MS) this.socket?.close();
    else if (this.socket?.readyState === WebSocket.OPEN) this.socket.send('{"type":"ping"}');
  }

  lost(socket, code) {
    if (socket !== this.socket) return;
    this.socket = null;
    clearInterval(this.pulse);
    if (this.isStopped) return;
    if (code === 4403 && this.topics.includes("traces")) {
      this.topics = TOPICS.filter((topic) => topic !== "traces"); // a key without traces:read
      this.open();
    } else if (CLOSED_FOR_GOOD.has(code)) {
      this.onState("signed-out");
    } else {
      this.later();
    }
  }

  later() {
    this.onState("offline");
    this.failures += 1;
    const wait = Math.min(LONGEST_WAIT_MS, 250 * 2 ** this.failures) * (0.5 + Math.random() / 2);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.open(), wait);
  }
}
