// JSON that keeps numbers exact: read without rounding, written as it was.

const LONG_NUMBER = /[\d.]{16}/;
const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** Read JSON that came from the hub; integers beyond 2^53 keep their digits where the browser can. */
export function parse(text) {
  if (!JSON.rawJSON || !LONG_NUMBER.test(text)) return JSON.parse(text);
  return JSON.parse(text, (_key, value, context) => {
    const isRounded = typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);
    return isRounded && context?.source ? JSON.rawJSON(context.source) : value;
  });
}

/** Read JSON that somebody typed; an integer that would be rounded is refused. */
export function parseTyped(text) {
  const value = JSON.parse(text);
  for (const [token] of text.matchAll(TOKEN)) {
    if (token[0] === '"' || /[.eE]/.test(token)) continue;
    if (!Number.isSafeInteger(Number(token))) {
      throw new SyntaxError(`${token} is too large to be sent exactly; send it as a text`);
    }
  }
  return value;
}

export function pretty(value) {
  return JSON.stringify(value, null, 2) ?? "";
}

export const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
