// Messages that the page itself exchanged, as rows of the trace: the same shape as the hub's.

const SECRETS = new Set([
  "access_token", "refresh_token", "id_token", "client_secret", "registration_access_token",
  "code", "code_verifier", "client_assertion",
]);
const HIDDEN = "[redacted]";
const MOST_DEPTH = 60;

let last = { time: 0, count: 0 };

/** A UUID version 7 that rises strictly within this page. */
export function timeId() {
  const now = Date.now();
  const isFull = last.count === 0xfff;
  last = now > last.time ? { time: now, count: 0 } : { time: last.time + (isFull ? 1 : 0), count: isFull ? 0 : last.count + 1 };
  const time = last.time.toString(16).padStart(12, "0");
  const count = last.count.toString(16).padStart(3, "0");
  const random = crypto.randomUUID().slice(18);
  return `${time.slice(0, 8)}-${time.slice(8)}-7${count}${random}`;
}

/** The row of a message that a client has seen. */
export function rowOf(server, seen) {
  const { direction, message, http, isMade, callId, method, durationMs } = seen;
  const size = JSON.stringify(message).length;
  const hidden = { count: 0 };
  return {
    id: timeId(), seq: 0, at: new Date().toISOString(), server, call: callId, attempt: 1, direction,
    type: typeOf(message), method, rpcId: message.id === undefined ? null : String(message.id),
    content: hide(message, hidden, 0), error: errorOf(message, isMade), size: isMade ? 0 : size, truncated: false,
    redacted: hidden.count > 0, synthetic: isMade, durationMs, http,
  };
}

function typeOf(message) {
  if (message.method !== undefined) return message.id === undefined ? "notification" : "request";
  return message.error ? "error" : "response";
}

function errorOf(message, isMade) {
  if (message.error) return { plane: isMade ? "hub" : "protocol", code: message.error.code ?? null };
  return message.result?.isError === true ? { plane: "tool", code: null } : null;
}

function hide(value, hidden, depth) {
  if (value === null || typeof value !== "object" || depth > MOST_DEPTH) return value;
  if (JSON.isRawJSON?.(value)) return value;
  if (Array.isArray(value)) return value.map((one) => hide(one, hidden, depth + 1));
  return Object.fromEntries(Object.entries(value).map(([name, one]) => {
    const isSecret = typeof one === "string" && SECRETS.has(name.toLowerCase());
    if (isSecret) hidden.count += 1;
    return [name, isSecret ? HIDDEN : hide(one, hidden, depth + 1)];
  }));
}
