// What servers ask of the user: elicitation forms and addresses, waiting for an answer.

import { announce, button, fill, h, outLink } from "./dom.js";
import { hostOf } from "./authorize.js";
import { Problem } from "./hub.js";
import { problemView } from "./problem-view.js";
import { SchemaForm } from "./schema-form.js";
import { line, visible } from "./text.js";

export class RequestsPanel {
  constructor(app) {
    Object.assign(this, { app, cards: new Map() });
    this.element = h("div", { class: "stack", "data-testid": "requests" });
    this.leave = app.store.on("elicitations", () => this.draw());
    this.draw();
  }

  close() { this.leave(); }

  draw() {
    const pending = this.app.store.elicitations;
    if (pending.length === 0) {
      this.cards.clear();
      fill(this.element, h("p", { class: "empty" }, "No server is waiting for an answer. When one asks for input, the question appears here, in every open tab."));
      return;
    }
    const kept = new Map(pending.map((one) => [one.id, this.cards.get(one.id) ?? this.card(one)]));
    this.cards = kept;
    const cards = [...kept.values()];
    const isSame = cards.length === this.element.childElementCount && cards.every((card, index) => card === this.element.children[index]);
    if (!isSame) fill(this.element, cards); // whoever types an answer keeps the focus
  }

  card(asked) {
    const failure = h("div", {});
    const form = asked.url ? null : new SchemaForm(asked.requestedSchema ?? {});
    const send = (action) => this.answer(asked, action, form, failure);
    return h("section", { class: "card", "data-testid": "elicitation" },
      h("h3", {}, `${line(asked.server ?? "A server", 60)} asks`),
      h("p", { class: "foreign" }, visible(String(asked.message ?? "").slice(0, 4000))),
      h("p", { class: "help" }, "These words come from the server, not from the hub. Never enter a password here."),
      failure, asked.url ? addressView(asked.url) : form.element,
      h("div", { class: "run-actions" },
        button(asked.url ? "I have done it" : "Accept", () => send("accept"), { class: "primary" }),
        button("Decline", () => send("decline")), button("Cancel", () => send("cancel"))));
  }

  async answer(asked, action, form, failure) {
    const errors = action === "accept" && form ? form.validate() : [];
    form?.showErrors(errors);
    if (errors.length) { form.focusFirstError(); return; }
    const content = action === "accept" && form ? { content: form.value } : {};
    try {
      await this.app.store.hub.post(`/elicitations/${encodeURIComponent(asked.id)}`, { action, ...content });
      announce("Answered.");
      await this.app.store.readElicitations();
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      form?.showErrors(problem.errors.map((one) => ({ path: one.path ?? `/${one.property}`, message: one.message })));
      fill(failure, problemView(problem, this.app.store.hub));
    }
  }
}

function addressView(address) {
  const host = hostOf(address);
  return h("div", { class: "notice" },
    h("p", {}, "It wants you to open a page at ", h("strong", {}, line(host, 200)), "."),
    /xn--/.test(host) ? h("p", { class: "check bad" }, "✗ This name is written with letters of another script, which can imitate a known name.") : null,
    h("p", {}, h("code", { class: "wrap" }, line(address, 2000))), h("p", {}, outLink(address, "Open the page")));
}
