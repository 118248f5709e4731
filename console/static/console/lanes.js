// A lane for each server: exchanges as bars over time, in CSS alone; the list says the same in words.

import { fill, h } from "./dom.js";
import { line } from "./text.js";

const MOST_LANES = 5;
const SHORTEST_SPAN_MS = 1000;

export function drawLanes(element, entries) {
  const timed = entries.map((entry) => {
    const end = Date.parse((entry.answer ?? entry.first).at);
    return { entry, start: entry.answer && entry.duration !== null ? end - entry.duration : Date.parse(entry.at), end };
  }).filter(({ start }) => Number.isFinite(start));
  if (timed.length < 2) { fill(element); return; }
  const from = Math.min(...timed.map(({ start }) => start));
  const span = Math.max(SHORTEST_SPAN_MS, Math.max(...timed.map(({ end }) => end)) - from);
  const servers = [...new Set(timed.map(({ entry }) => entry.server))].slice(0, MOST_LANES);
  fill(element, servers.map((server) => lane(server, timed.filter(({ entry }) => entry.server === server), { from, span })));
}

function lane(server, timed, { from, span }) {
  const bars = timed.map(({ entry, start, end }) => {
    const bar = h("span", { class: `lane-bar ${entry.status}` });
    bar.style.left = `${(100 * (start - from)) / span}%`;
    bar.style.width = `${Math.max(0.4, (100 * (end - start)) / span)}%`;
    return bar;
  });
  return h("div", { class: "lane" }, h("span", { class: "lane-name" }, line(server, 24)), h("span", { class: "lane-track" }, bars));
}
