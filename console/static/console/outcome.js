// What a call returned: text, image, audio, resources, links, structured content, and its check.

import { button, h, outLink } from "./dom.js";
import { isObject } from "./json.js";
import { jsonView, textView } from "./json-view.js";
import { bytes, line, visible } from "./text.js";
import { validate } from "./validate.js";

const IMAGES = /^image\/(png|jpeg|gif|webp|avif|bmp)$/i;
const SOUNDS = /^audio\/[a-z0-9.+-]+$/i;
const NAMES = { text: "Text", image: "Image", audio: "Sound", resource_link: "Resource link", resource: "Embedded resource" };
const BASE64 = /^[A-Za-z0-9+/=_\s-]*$/;

/** Show the result of tools/call, resources/read or prompts/get. `onRead(uri)` follows a link. */
export function outcomeView(result, { outputSchema, onRead } = {}) {
  if (!isObject(result)) return jsonView(result, "Result");
  const blocks = Array.isArray(result.content) ? result.content : [];
  const contents = Array.isArray(result.contents) ? result.contents : [];
  const messages = Array.isArray(result.messages) ? result.messages : [];
  const structured = result.structuredContent;
  return h("div", { class: "outcome" },
    blocks.map((block) => blockView(block, onRead)),
    contents.map((one) => resourceView(one)),
    messages.map((one) => messageView(one, onRead)),
    structured === undefined ? null : structuredView(structured, outputSchema),
    structured === undefined && outputSchema && !result.isError
      ? h("p", { class: "check bad" }, "✗ The tool promises structured content (outputSchema) and sent none.") : null,
    blocks.length + contents.length + messages.length === 0 && structured === undefined
      ? h("p", { class: "empty" }, "The result has no content.") : null,
    h("details", {}, h("summary", {}, "Whole result as JSON"), jsonView(result, "Whole result")));
}

function structuredView(value, schema) {
  const errors = schema ? validate(schema, value) : null;
  return h("section", { class: "block", "data-testid": "structured" },
    h("h4", {}, "Structured content"),
    jsonView(value, "Structured content"),
    errors === null ? null : checkView(errors));
}

function checkView(errors) {
  if (errors.length === 0) return h("p", { class: "check good", "data-testid": "output-check" }, "✓ Fits the tool's output schema.");
  return h("div", { class: "check bad", "data-testid": "output-check" },
    h("p", {}, "✗ Does not fit the tool's output schema:"),
    h("ul", {}, errors.slice(0, 20).map((one) => h("li", {}, h("code", {}, one.path || "/"), ` ${one.message}`))));
}

function blockView(block, onRead) {
  const views = {
    text: () => textView(String(block.text ?? ""), { label: "Text" }),
    image: () => imageView(block),
    audio: () => audioView(block),
    resource: () => resourceView(block.resource),
    resource_link: () => linkView(block, onRead),
  };
  const type = String(block?.type);
  const view = views[type]?.() ?? jsonView(block, "Unknown content");
  const name = NAMES[type] ?? line(type, 40);
  return h("section", { class: "block", "data-block": type in views ? type : "unknown" }, h("h4", {}, name), view);
}

function imageView(block) {
  const address = dataAddress(block, IMAGES);
  if (!address) return notShown(block, "image");
  return h("figure", {}, h("img", { src: address, alt: `Image from the server, ${block.mimeType}` }), caption(block));
}

function audioView(block) {
  const address = dataAddress(block, SOUNDS);
  if (!address) return notShown(block, "sound");
  return h("figure", {}, h("audio", { controls: true, src: address, "aria-label": "Sound from the server" }), caption(block));
}

const caption = (block) => h("figcaption", {}, `${line(block.mimeType, 60)}, ${bytes(Math.round(block.data.length * 0.75))}`);

function dataAddress({ mimeType, data }, allowed) {
  const isFine = allowed.test(String(mimeType)) && typeof data === "string" && BASE64.test(data);
  return isFine ? `data:${mimeType};base64,${data.replace(/\s/g, "").replace(/-/g, "+").replace(/_/g, "/")}` : null;
}

function notShown(block, what) {
  return h("p", { class: "empty" }, `This ${what} is not shown: its type is “${line(block.mimeType, 60)}”, or its data is damaged. The whole result has it.`);
}

function resourceView(resource) {
  if (!isObject(resource)) return jsonView(resource, "Resource");
  const { uri, mimeType, text, blob } = resource;
  const body = typeof text === "string" ? textView(text, { label: "Content of the resource" }) : blobView(blob, mimeType);
  return h("div", { class: "block" }, h("p", { class: "quiet" }, h("code", {}, line(uri, 300)), mimeType ? ` · ${line(mimeType, 60)}` : ""), body);
}

function blobView(blob, mimeType) {
  if (typeof blob !== "string") return h("p", { class: "empty" }, "The resource has neither text nor data.");
  const image = dataAddress({ mimeType, data: blob }, IMAGES);
  if (image) return h("figure", {}, h("img", { src: image, alt: "Image of the resource" }));
  return h("p", { class: "quiet" }, `${bytes(Math.round(blob.length * 0.75))} of binary data.`);
}

function linkView(link, onRead) {
  const uri = String(link.uri ?? "");
  return h("div", { class: "link-card" },
    h("p", {}, h("strong", {}, line(link.title || link.name || uri)), link.mimeType ? ` · ${line(link.mimeType, 60)}` : ""),
    link.description ? h("p", { class: "quiet" }, visible(String(link.description).slice(0, 2000))) : null,
    h("p", {}, h("code", {}, outLink(uri, line(uri, 300)))),
    onRead ? button("Read through the hub", () => onRead(uri), { class: "small" }) : null);
}

function messageView(message, onRead) {
  const blocks = [message?.content].flat();
  return h("section", { class: "message" }, h("h4", {}, line(message?.role, 40)), blocks.map((block) => blockView(block, onRead)));
}
