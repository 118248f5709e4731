// The ways to answer a question of a server: a form, a page to visit, a model's words, folders.

import { h, outLink } from "./dom.js";
import { hostOf } from "./authorize.js";
import { jsonView } from "./json-view.js";
import { SchemaForm } from "./schema-form.js";
import { line } from "./text.js";

/**
 * Each form has `element`, `accept` (words of the button), `check()` → errors, `content` (what goes
 * with "accept"), and may have `showErrors`, `focusFirstError` and `onAccept`.
 */
export function questionForm(question) {
  const make = { url: visitForm, sampling: samplingForm, roots: rootsForm }[question.kind ?? (question.url ? "url" : "form")] ?? schemaForm;
  return make(question);
}

function schemaForm({ requestedSchema }) {
  const form = new SchemaForm(requestedSchema ?? {});
  return {
    element: form.element, accept: "Accept", check: () => form.validate(), get content() { return form.value; },
    showErrors: (errors) => form.showErrors(errors), focusFirstError: () => form.focusFirstError(),
  };
}

/** The page opens with the consent, never before it. */
function visitForm({ url, isConsented }) {
  const isWeb = /^https?:\/\//i.test(url);
  const host = hostOf(url);
  const [before, after] = url.includes(host) ? [url.slice(0, url.indexOf(host)), url.slice(url.indexOf(host) + host.length)] : [url, ""];
  const shownHost = after || url.includes(host) ? h("mark", {}, line(host, 300)) : null;
  const element = h("div", { class: "notice", "data-testid": "visit" },
    h("p", {}, isConsented ? "Opened. The server says when it is done there; the question leaves by itself. " : "It wants you to open this page: ",
      h("code", { class: "wrap" }, line(before, 2000), shownHost, line(after, 2000))),
    /xn--/.test(host) ? h("p", { class: "check bad" }, "✗ This name is written with letters of another script, which can imitate a known name.") : null,
    isWeb ? null : h("p", { class: "check bad" }, "✗ This is no address of the web: it is not opened."),
    isConsented ? h("p", {}, outLink(url, "Open the page again")) : null);
  return {
    element, accept: isWeb && !isConsented ? `Open ${line(host, 60)}` : null, check: () => [], content: undefined,
    onAccept: () => { window.open(url, "_blank", "noopener,noreferrer"); },
  };
}

function samplingForm({ params, id }) {
  const { messages, systemPrompt, maxTokens } = params ?? {};
  const text = h("textarea", { id: `say-${id}`, rows: 4, required: true });
  const model = h("input", { id: `model-${id}`, type: "text", value: "written by hand", spellcheck: "false" });
  return {
    element: h("div", { class: "fields" },
      h("p", {}, "It wants a model to go on with these messages. The hub has no model: write the answer, or paste one."),
      systemPrompt ? h("p", { class: "foreign" }, line(systemPrompt, 2000)) : null,
      jsonView(messages ?? [], "Messages for the model"),
      h("div", { class: "field" }, h("label", { for: text.id }, "The model's answer"), text, maxTokens ? h("p", { class: "help" }, `At most ${line(maxTokens, 12)} tokens are wanted.`) : null),
      h("div", { class: "field" }, h("label", { for: model.id }, "Name of the model"), model)),
    accept: "Send this answer",
    check: () => needed(text, text.value.trim() !== "", "Write the answer first."),
    get content() { return { role: "assistant", content: { type: "text", text: text.value }, model: model.value.trim() || "unknown", stopReason: "endTurn" }; },
  };
}

function rootsForm({ id }) {
  const folders = h("textarea", { id: `roots-${id}`, rows: 3, class: "mono", spellcheck: "false", placeholder: "file:///home/me/project", "aria-describedby": `roots-help-${id}` });
  const found = () => folders.value.split("\n").map((one) => one.trim()).filter(Boolean);
  return {
    element: h("div", { class: "field" }, h("label", { for: folders.id }, "Folders that it may know of, one file:// address per line"), folders,
      h("p", { class: "help", id: `roots-help-${id}` }, "Only the addresses are told; the server gets no access by it. None is an answer too.")),
    accept: "Tell these folders",
    check: () => needed(folders, found().every((uri) => uri.startsWith("file:///")), "Every line begins with file:///."),
    get content() { return { roots: found().map((uri) => ({ uri, name: uri.split("/").filter(Boolean).at(-1) })) }; },
  };
}

function needed(control, isFine, message) {
  control.removeAttribute("aria-invalid");
  if (isFine) return [];
  control.setAttribute("aria-invalid", "true");
  control.focus();
  return [{ path: "", message }];
}
