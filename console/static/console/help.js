// Keyboard shortcuts, with a switch, and the dialog that lists them.

import { h, showDialog } from "./dom.js";

const KEY = "mcphub.shortcuts";
const SHORTCUTS = [
  ["Alt Shift S", "To the list of servers"], ["Alt Shift T", "To the tools of the server"], ["Alt Shift H", "To the history"],
  ["Alt Shift F", "Filter the history"], ["Alt Shift A", "Add a server"], ["Ctrl Enter", "Run, inside a form"], ["?", "This help"],
];
const KEYS = [
  ["↑ ↓ Home End", "Move in a list; letters jump to a name"], ["← →", "Move between tabs"], ["Esc", "Close a dialog"],
];

export const areShortcutsOn = () => localStorage.getItem(KEY) !== "off";

/** Listen for shortcuts; `actions` = `{S: f, T: f, H: f, F: f, A: f}`. */
export function listenForShortcuts(actions) {
  document.addEventListener("keydown", (event) => {
    if (!areShortcutsOn() || document.querySelector("dialog[open]")) return;
    if (event.altKey && event.shiftKey && !event.ctrlKey && !event.metaKey) {
      const action = actions[event.code.replace("Key", "")];
      if (!action) return;
      event.preventDefault();
      action();
    } else if (event.key === "?" && !event.target.closest("input, textarea, select")) {
      event.preventDefault();
      showHelp();
    }
  });
}

export function showHelp() {
  const box = h("input", { type: "checkbox", checked: areShortcutsOn(), onchange: () => localStorage.setItem(KEY, box.checked ? "on" : "off") });
  const list = (rows) => h("dl", { class: "keys" }, rows.flatMap(([keys, text]) => [h("dt", {}, keys.split(" ").map((key) => [h("kbd", {}, key), " "])), h("dd", {}, text)]));
  showDialog("Keyboard and filter",
    h("label", { class: "inline" }, box, " Shortcuts are on"), list(SHORTCUTS), h("h3", {}, "Everywhere"), list(KEYS),
    h("h3", {}, "Filter of the history"),
    h("p", {}, "Words look into the whole message. Fields: ", h("code", {}, "method: server: status: direction: call: target: duration: size: pinned:"), ". A minus before one turns it round."),
    h("pre", { class: "plain", tabindex: "0", "aria-label": "Examples of filters" }, "method:tools/call status:error\nserver:demo duration:>500\n-status:note direction:down\npinned:yes \"exact words\""));
}
