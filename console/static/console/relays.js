// What a server may ask of the person: what its operator offers, and what the person agrees to.

import { announce, fill, freshId, h } from "./dom.js";
import { problemLine } from "./problem-view.js";
import { serverPath } from "./hub.js";

const KINDS = [
  ["elicitation", "Questions to you", "forms to fill in and pages to visit, in the course of a call"],
  ["sampling", "Answers of a model", "it sends messages and wants a model to go on; you see and answer each"],
  ["roots", "Your folders", "addresses of folders that it may know of; you choose them each time"],
];

/** Checkboxes of the relays of a server; null where nothing can be relayed at all. */
export function relaysView(app, server) {
  if (!server.relays) return null;
  const failure = h("p", { class: "field-error", role: "alert", hidden: true });
  const change = async (kind, box) => {
    failure.hidden = true;
    box.disabled = true;
    try {
      const { body } = await app.store.hub.ask("PATCH", serverPath(server.id), { body: { consent: { [kind]: box.checked } } });
      app.store.keepServer(body);
      announce(box.checked ? "Allowed." : "No longer allowed.");
    } catch (problem) {
      box.checked = !box.checked;
      failure.textContent = problemLine(problem);
      failure.hidden = false;
    } finally {
      box.disabled = false;
    }
  };
  return h("section", { class: "relays", "data-testid": "relays" }, h("h3", {}, "What the server may ask"),
    KINDS.map(([kind, title, meaning]) => relayRow(kind, title, meaning, server.relays[kind], change)), failure,
    h("p", { class: "help" }, "A change opens the session anew."));
}

function relayRow(kind, title, meaning, { offered, consented } = {}, change) {
  const id = freshId("relay");
  const box = h("input", { id, type: "checkbox", checked: Boolean(offered && consented), disabled: !offered, "data-testid": `consent-${kind}`, "aria-describedby": `${id}-help`, onchange: () => change(kind, box) });
  return h("div", { class: "field inline" }, box, h("label", { for: id }, title),
    h("span", { class: "help", id: `${id}-help` }, offered ? ` ${meaning}` : ` ${meaning} (switched off for this server)`));
}
