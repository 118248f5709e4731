"use strict";
// The landing page: copy buttons, and the state of the hub every ten seconds.

const REFRESH_MS = 10_000;

for (const code of document.querySelectorAll("pre code")) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.setAttribute("aria-label", `Copy the command: ${code.textContent.slice(0, 60)}`);
  button.addEventListener("click", () => copy(code, button));
  code.closest("figure").append(button);
}

async function copy(code, button) {
  try {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(code); // no clipboard over plain http: at least select it
    button.textContent = "Selected";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
}

async function showState() {
  const list = document.getElementById("parts");
  let parts = { web: "unreachable" };
  try {
    parts = { web: "ok", ...(await (await fetch("/readyz", { cache: "no-store" })).json()).parts };
  } catch {
    // the page outlives its server; the list says so
  }
  const items = Object.entries(parts).map(([name, state]) => {
    const item = document.createElement("li");
    item.className = state === "ok" ? "ok" : "bad";
    item.textContent = `${name}: ${state}`;
    return item;
  });
  list.replaceChildren(...items);
  list.setAttribute("aria-busy", "false");
}

showState();
setInterval(showState, REFRESH_MS);
