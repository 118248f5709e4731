// What servers ask of the user in the course of a call, waiting for an answer.

import { announce, button, fill, h } from "./dom.js";
import { Problem } from "./hub.js";
import { problemView } from "./problem-view.js";
import { questionForm } from "./question-forms.js";
import { line, visible } from "./text.js";

const WANTS = { form: "asks", url: "asks you to visit a page", sampling: "asks for a model's answer", roots: "asks for your folders" };

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
    const keyOf = (one) => `${one.id} ${one.isConsented} ${one.error?.message ?? ""}`;
    this.cards = new Map(pending.map((one) => [keyOf(one), this.cards.get(keyOf(one)) ?? this.card(one)]));
    const cards = [...this.cards.values()];
    const isSame = cards.length === this.element.childElementCount && cards.every((card, index) => card === this.element.children[index]);
    if (!isSame) fill(this.element, cards); // whoever types an answer keeps the focus
  }

  card(asked) {
    const failure = h("div", {}, asked.error ? h("p", { class: "check bad", role: "alert" }, `✗ ${line(asked.error.message, 400)}`) : null);
    const form = questionForm(asked);
    const send = (action) => this.answer(asked, action, form, failure);
    return h("section", { class: "card", "data-testid": "elicitation", "data-kind": asked.kind },
      h("h3", {}, `${line(asked.server ?? "A server", 60)} ${WANTS[asked.kind] ?? "asks"}`),
      asked.message ? h("p", { class: "foreign" }, visible(String(asked.message).slice(0, 4000))) : null,
      h("p", { class: "help" }, "The question comes from the server, not from the hub. Never enter a password here."),
      failure, form.element,
      h("div", { class: "run-actions" },
        form.accept ? button(form.accept, () => { if (this.isFine(form, failure)) { form.onAccept?.(); send("accept"); } }, { class: "primary", "data-testid": "accept" }) : null,
        button("Decline", () => send("decline"), { "data-testid": "decline" }), button("Cancel", () => send("cancel"), { "data-testid": "dismiss" }),
        asked.expiresAt ? h("span", { class: "quiet" }, `Waits until ${new Date(asked.expiresAt).toLocaleTimeString()}`) : null));
  }

  isFine(form, failure) {
    const errors = form.check();
    form.showErrors?.(errors);
    const homeless = form.showErrors ? [] : errors;
    fill(failure, homeless.map((one) => h("p", { class: "field-error", role: "alert" }, one.message)));
    if (errors.length) form.focusFirstError?.();
    return errors.length === 0;
  }

  async answer(asked, action, form, failure) {
    const content = action === "accept" && form.content !== undefined ? { content: form.content } : {};
    try {
      await this.app.store.hub.post(`/elicitations/${encodeURIComponent(asked.id)}`, { action, ...content });
      announce("Answered.");
      await this.app.store.readElicitations();
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      form.showErrors?.(problem.errors.map((one) => ({ path: one.path ?? `/${one.property}`, message: one.message })));
      fill(failure, problemView(problem, this.app.store.hub));
    }
  }
}
