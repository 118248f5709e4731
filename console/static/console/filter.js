// The filter of the history: `method:tools/call server:linear status:error duration:>500 words`.

const FIELD = /^(-?)(method|server|status|direction|call|target|duration|size|pinned):(.*)$/i;
const WORDS = /"([^"]*)"|(\S+)/g;
const STATUSES = ["ok", "error", "waiting", "note"];

/** Read a filter; returns `{matches(entry), problem}`; a wrong word is said, not ignored. */
export function readFilter(text) {
  const tests = [];
  let problem = "";
  for (const [, quoted, word] of text.matchAll(WORDS)) {
    const field = quoted === undefined && FIELD.exec(word);
    const [test, wrong] = field ? fieldTest(field[2].toLowerCase(), field[3]) : [containing(quoted ?? word), ""];
    if (wrong) problem ||= wrong;
    else tests.push(field?.[1] ? (entry) => !test(entry) : test);
  }
  return { matches: (entry) => tests.every((test) => test(entry)), problem, isEmpty: tests.length === 0 };
}

function containing(words) {
  const wanted = words.toLowerCase();
  return (entry) => entry.text.includes(wanted);
}

function fieldTest(name, value) {
  const wanted = value.toLowerCase();
  if (name === "duration") return numberTest(value, (entry) => entry.duration, "duration:>500 (milliseconds)");
  if (name === "size") return numberTest(value, (entry) => entry.size, "size:>10000 (bytes)");
  if (name === "status" && !STATUSES.includes(wanted)) return [null, `status is one of ${STATUSES.join(", ")}`];
  if (name === "direction") return directionTest(wanted);
  if (name === "pinned") return [(entry) => entry.isPinned === (wanted !== "no"), ""];
  if (name === "status") return [(entry) => entry.status === wanted, ""];
  return [(entry) => String(entry[name] ?? "").toLowerCase().includes(wanted), ""];
}

function directionTest(wanted) {
  if (wanted !== "up" && wanted !== "down") return [null, "direction is up (to the server) or down"];
  return [(entry) => entry.wentUp === (wanted === "up"), ""];
}

function numberTest(value, read, example) {
  const found = /^(>=?|<=?|=)?(\d+(?:\.\d+)?)$/.exec(value);
  if (!found) return [null, `write it as ${example}`];
  const limit = Number(found[2]);
  const compare = {
    ">": (x) => x > limit, ">=": (x) => x >= limit, "<": (x) => x < limit, "<=": (x) => x <= limit, "=": (x) => x === limit,
  }[found[1] ?? ">="];
  return [(entry) => read(entry) !== null && compare(read(entry)), ""];
}
