// JSON Schema reading: references, nullable types, choices; nothing is ever fetched or evaluated.

import { isObject } from "./json.js";

const own = (object, key) => Object.prototype.hasOwnProperty.call(object, key);

export const typeOf = (value) => {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  if (typeof value === "number") return Number.isInteger(value) ? "integer" : "number";
  return typeof value;
};

export function equal(a, b) {
  if (a === b) return true;
  if (Array.isArray(a)) return Array.isArray(b) && a.length === b.length && a.every((x, i) => equal(x, b[i]));
  if (!isObject(a) || !isObject(b)) return false;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => own(b, key) && equal(a[key], b[key]));
}

/** One step of a JSON pointer, written for use in one. */
export const pointerPart = (name) => name.replace(/~/g, "~0").replace(/\//g, "~1");

/** Follow `$ref` inside the document; a remote one stays as it is. */
export function deref(schema, root) {
  const seen = new Set();
  let found = schema;
  while (isObject(found) && typeof found.$ref === "string" && !seen.has(found.$ref)) {
    const { $ref, ...rest } = found;
    seen.add($ref);
    if ($ref !== "#" && !$ref.startsWith("#/")) return found;
    const target = $ref === "#" ? root : pointed(root, $ref.slice(2));
    if (target === undefined) return {};
    found = isObject(target) ? { ...target, ...rest } : target;
  }
  return found;
}

function pointed(root, pointer) {
  let place = root;
  for (const part of pointer.split("/")) {
    const name = decoded(part).replace(/~1/g, "/").replace(/~0/g, "~");
    if (place === null || typeof place !== "object" || !own(place, name)) return undefined;
    place = place[name];
  }
  return place;
}

function decoded(part) {
  try { return decodeURIComponent(part); } catch { return part; }
}

/** Fold `allOf`, and `null` as one of several types, into one schema and a flag. */
export function normalise(schema, root, depth = 0) {
  let shape = deref(schema, root);
  if (!isObject(shape) || depth > 20) return { shape: {}, isNullable: true };
  if (Array.isArray(shape.allOf)) shape = merged(shape, root, depth);
  let isNullable = false;
  for (const key of ["anyOf", "oneOf"]) {
    if (!Array.isArray(shape[key])) continue;
    const { [key]: all, ...base } = shape;
    const rest = all.filter((one) => deref(one, root)?.type !== "null");
    if (rest.length === all.length) continue;
    isNullable = true;
    shape = rest.length === 1 ? { ...normalise(rest[0], root, depth + 1).shape, ...base } : { ...base, [key]: rest };
  }
  if (Array.isArray(shape.type)) {
    isNullable ||= shape.type.includes("null");
    const types = shape.type.filter((type) => type !== "null");
    shape = { ...shape, type: types.length === 1 ? types[0] : types };
  }
  if (Array.isArray(shape.enum) && shape.enum.includes(null)) {
    isNullable = true;
    shape = { ...shape, enum: shape.enum.filter((value) => value !== null) };
  }
  if (shape.type === undefined && shape.properties) shape = { ...shape, type: "object" };
  return { shape, isNullable };
}

function merged({ allOf, ...rest }, root, depth) {
  const parts = [...allOf.map((one) => normalise(one, root, depth + 1).shape), rest];
  return parts.reduce((a, b) => {
    const both = { ...a, ...b };
    if (a.properties || b.properties) both.properties = { ...a.properties, ...b.properties };
    if (a.required || b.required) both.required = [...new Set([...(a.required ?? []), ...(b.required ?? [])])];
    return both;
  }, {});
}

/** The values that a schema allows, `[{value, label}]`, when it names them; else null. */
export function choicesOf(shape, root) {
  if (own(shape, "const")) return [{ value: shape.const }];
  if (Array.isArray(shape.enum)) {
    return shape.enum.map((value, index) => ({ value, label: shape.enumNames?.[index] }));
  }
  const options = (shape.oneOf ?? shape.anyOf ?? []).map((one) => deref(one, root));
  if (options.length && options.every((one) => isObject(one) && own(one, "const"))) {
    return options.map((one) => ({ value: one.const, label: one.title }));
  }
  return shape.type === "boolean" ? [{ value: true }, { value: false }] : null;
}
