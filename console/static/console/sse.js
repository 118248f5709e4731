// Server-sent events of a response, as they come; a line may be cut anywhere between chunks.

const MOST_BYTES = 32 << 20; // of one event: a server that never ends one does not fill the memory

/** Yield the `data` of each event of a body. */
export async function* eventsOf(body) {
  const decoder = new TextDecoder();
  let rest = "";
  let data = [];
  let size = 0;
  for await (const chunk of chunksOf(body)) {
    rest += decoder.decode(chunk, { stream: true });
    const lines = rest.split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop();
    for (const line of lines) {
      if (line === "" && data.length) { yield data.join("\n"); data = []; size = 0; }
      if (!line.startsWith("data:")) continue;
      data.push(line.slice(line[5] === " " ? 6 : 5));
      size += line.length;
    }
    if (size + rest.length > MOST_BYTES) throw new RangeError("An event of the server is too large.");
  }
}

async function* chunksOf(body) {
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    reader.cancel().catch(() => {}); // whoever stops reading ends the connection
  }
}
