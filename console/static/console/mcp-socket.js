// MCP over a WebSocket: one JSON-RPC message per frame, subprotocol "mcp".

import { parse } from "./json.js";
import { Unreachable } from "./mcp-http.js";

const OPEN_MS = 10_000;

export class SocketTransport {
  constructor(url) {
    Object.assign(this, { url, kind: "websocket", onMessage: () => {}, onClose: () => {} });
  }

  async send(message) {
    const socket = await (this.opening ??= this.open());
    if (socket.readyState !== WebSocket.OPEN) throw new Unreachable("The WebSocket is closed.");
    socket.send(JSON.stringify(message));
    return { isFinished: false }; // the answer comes whenever it comes
  }

  open() {
    return new Promise((resolve, reject) => {
      const socket = new WebSocket(this.url, ["mcp"]);
      this.socket = socket;
      const timer = setTimeout(() => { socket.close(); reject(new Unreachable("The WebSocket did not open in time.")); }, OPEN_MS);
      socket.addEventListener("open", () => { clearTimeout(timer); resolve(socket); });
      socket.addEventListener("message", ({ data }) => this.receive(data));
      socket.addEventListener("close", ({ code }) => {
        clearTimeout(timer);
        const lost = new Unreachable(`The WebSocket closed (${code}).`);
        reject(lost);
        if (!this.isClosed) this.onClose(lost);
      });
    });
  }

  receive(data) {
    let message;
    try { message = parse(data); } catch { return; }
    if (message?.jsonrpc === "2.0") this.onMessage(message, {});
  }

  async close() {
    this.isClosed = true;
    this.socket?.close();
  }
}
