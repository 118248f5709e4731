// The difference of two tool lists: now, earlier in this page, the last visit, or an imported file.

import { button, fill, h } from "./dom.js";
import { addCapture, capturesOf, differenceOf, lineDifference, said } from "./captures.js";
import { readFile } from "./transfer.js";
import { line, plural, visible } from "./text.js";

export function compareView(app, server) {
  const result = h("div", { "data-testid": "difference" });
  const selects = h("div", { class: "compare-selects" });
  const failure = h("p", { class: "field-error", role: "alert", hidden: true });
  const file = h("input", { type: "file", accept: ".json", hidden: true, "aria-label": "Session file", onchange: () => load() });

  function draw() {
    const list = capturesOf(server);
    if (list.length === 0) { fill(selects, h("p", { class: "empty" }, "No tool list has been seen yet: connect first.")); return; }
    const before = choice("Before", list, Math.max(0, list.length - 2));
    const after = choice("After", list, list.length - 1);
    fill(selects, before.field, after.field);
    const compare = () => fill(result, differenceView(list[before.index()].tools, list[after.index()].tools));
    before.select.onchange = compare;
    after.select.onchange = compare;
    compare();
  }

  async function load() {
    failure.hidden = true;
    try {
      const { servers } = readFile(await file.files[0].text());
      const found = servers.find((one) => one.id === server) ?? servers[0];
      if (!found?.tools?.length) throw new Error("The file has no tool list.");
      addCapture(server, found.tools, `file ${file.files[0].name}`);
      draw();
    } catch (error) {
      failure.textContent = error.message;
      failure.hidden = false;
    }
  }

  draw();
  return h("div", { class: "stack" },
    selects, h("div", { class: "run-actions" }, button("Compare with a session file …", () => file.click(), { class: "small" }), file), failure, result);
}

function choice(label, list, chosen) {
  const id = `compare-${label.toLowerCase()}`;
  const select = h("select", { id }, list.map((one, index) => h("option", { value: index }, `${new Date(one.at).toLocaleString()}, ${one.origin}, ${plural(one.tools.length, "tool")}`)));
  select.value = String(chosen);
  return { select, index: () => Number(select.value), field: h("div", { class: "field" }, h("label", { for: id }, label), select) };
}

function differenceView(before, after) {
  const { added, removed, changed } = differenceOf(before, after);
  if (added.length + removed.length + changed.length === 0) return h("p", { class: "empty" }, "The two lists are the same.");
  return h("div", { class: "stack" },
    h("p", {}, `${plural(added.length, "new tool")}, ${plural(removed.length, "tool")} gone, ${plural(changed.length, "tool")} changed.`),
    changed.map(([old, now]) => h("details", { open: true }, h("summary", {}, `Changed: ${line(now.name, 100)}`), linesView(lineDifference(said(old), said(now))))),
    added.map((tool) => h("details", {}, h("summary", {}, `New: ${line(tool.name, 100)}`), linesView(said(tool).split("\n").map((text) => ["+", text])))),
    removed.map((tool) => h("details", {}, h("summary", {}, `Gone: ${line(tool.name, 100)}`), linesView(said(tool).split("\n").map((text) => ["-", text])))));
}

const KINDS = { "+": "added", "-": "removed", " ": "same" };

function linesView(lines) {
  return h("pre", { class: "difference", tabindex: "0", "aria-label": "Difference, line by line" },
    lines.map(([sign, text]) => h("span", { class: KINDS[sign] }, `${sign} ${visible(text)}\n`)));
}
