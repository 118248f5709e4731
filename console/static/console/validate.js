// A JSON Schema validator for the keywords that tools use; it helps the user, the hub decides.

import { isObject } from "./json.js";
import { deref, equal, pointerPart, typeOf } from "./schema.js";

const DEEPEST = 40;
const own = (object, key) => Object.prototype.hasOwnProperty.call(object, key);
const FORMATS = {
  email: /^[^\s@]+@[^\s@]+$/,
  date: /^\d{4}-\d{2}-\d{2}$/,
  "date-time": /^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?([Zz]|[+-]\d{2}:\d{2})$/,
  uuid: /^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/i,
  ipv4: /^(\d{1,3}\.){3}\d{1,3}$/,
};

/** Return what does not fit: `[{path, message, keyword}]`, paths as JSON pointers. */
export function validate(schema, value, root = schema) {
  const found = [];
  check({ root, found, depth: 0 }, schema, value, "");
  return found;
}

function check(state, schema, value, path) {
  const shape = deref(schema, state.root);
  const at = { ...state, depth: state.depth + 1 };
  const wrong = (message, keyword, where = path) => state.found.push({ path: where, message, keyword });
  if (shape === false) { wrong("is not allowed", "false"); return; }
  if (!isObject(shape) || state.depth > DEEPEST) return;
  const type = typeOf(value);
  const types = shape.type === undefined ? null : [shape.type].flat();
  if (types && !types.some((one) => one === type || (one === "number" && type === "integer"))) {
    wrong(`must be ${types.join(" or ")}`, "type");
    return;
  }
  checkValues(shape, value, wrong);
  if (type === "string") checkText(shape, value, wrong);
  if (type === "integer" || type === "number") checkNumber(shape, value, wrong);
  if (type === "array") checkArray(at, shape, value, path, wrong);
  if (type === "object") checkObject(at, shape, value, path, wrong);
  checkCombined(at, shape, value, path, wrong);
}

function checkValues(shape, value, wrong) {
  if (own(shape, "const") && !equal(value, shape.const)) wrong(`must be ${JSON.stringify(shape.const)}`, "const");
  if (Array.isArray(shape.enum) && !shape.enum.some((one) => equal(one, value))) {
    wrong(`must be one of ${shape.enum.slice(0, 20).map((one) => JSON.stringify(one)).join(", ")}`, "enum");
  }
}

function checkText(shape, value, wrong) {
  const length = [...value].length;
  if (length < shape.minLength) wrong(`needs at least ${shape.minLength} characters`, "minLength");
  if (length > shape.maxLength) wrong(`allows at most ${shape.maxLength} characters`, "maxLength");
  if (typeof shape.pattern === "string" && value.length < 1000) {
    const pattern = compiled(shape.pattern);
    if (pattern && !pattern.test(value)) wrong(`must match ${shape.pattern}`, "pattern");
  }
  if (shape.format && !fitsFormat(shape.format, value)) wrong(`must be a valid ${shape.format}`, "format");
}

/** Patterns that could run for very long are left to the hub. */
function compiled(pattern) {
  if (/[+*}][^|()]*\)[+*{]/.test(pattern)) return null;
  try { return new RegExp(pattern, "u"); } catch { return null; }
}

function fitsFormat(format, value) {
  if (format === "uri" || format === "url") return URL.canParse(value);
  return !own(FORMATS, format) || FORMATS[format].test(value);
}

function checkNumber(shape, value, wrong) {
  if (value < shape.minimum) wrong(`must be ${shape.minimum} or more`, "minimum");
  if (value > shape.maximum) wrong(`must be ${shape.maximum} or less`, "maximum");
  if (value <= shape.exclusiveMinimum) wrong(`must be more than ${shape.exclusiveMinimum}`, "exclusiveMinimum");
  if (value >= shape.exclusiveMaximum) wrong(`must be less than ${shape.exclusiveMaximum}`, "exclusiveMaximum");
  const times = value / shape.multipleOf;
  if (Math.abs(times - Math.round(times)) > 1e-9) wrong(`must be a multiple of ${shape.multipleOf}`, "multipleOf");
}

function checkArray(state, shape, value, path, wrong) {
  if (value.length < shape.minItems) wrong(`needs at least ${shape.minItems} items`, "minItems");
  if (value.length > shape.maxItems) wrong(`allows at most ${shape.maxItems} items`, "maxItems");
  if (shape.uniqueItems && value.some((one, i) => value.slice(0, i).some((other) => equal(one, other)))) {
    wrong("must not repeat items", "uniqueItems");
  }
  const first = Array.isArray(shape.prefixItems) ? shape.prefixItems : [];
  value.forEach((one, i) => {
    const schema = i < first.length ? first[i] : shape.items;
    if (schema !== undefined) check(state, schema, one, `${path}/${i}`);
  });
}

function checkObject(state, shape, value, path, wrong) {
  const place = (name) => `${path}/${pointerPart(name)}`;
  for (const name of Array.isArray(shape.required) ? shape.required : []) {
    if (!own(value, name)) wrong("is required", "required", place(name));
  }
  const count = Object.keys(value).length;
  if (count < shape.minProperties) wrong(`needs at least ${shape.minProperties} entries`, "minProperties");
  if (count > shape.maxProperties) wrong(`allows at most ${shape.maxProperties} entries`, "maxProperties");
  const patterns = Object.entries(shape.patternProperties ?? {}).map(([text, one]) => [compiled(text), one]);
  for (const [name, one] of Object.entries(value)) {
    const fitting = patterns.filter(([pattern]) => pattern?.test(name)).map(([, schema]) => schema);
    if (own(shape.properties ?? {}, name)) fitting.push(shape.properties[name]);
    for (const schema of fitting) check(state, schema, one, place(name));
    if (fitting.length) continue;
    if (shape.additionalProperties === false) wrong("is not a known argument", "additionalProperties", place(name));
    else if (isObject(shape.additionalProperties)) check(state, shape.additionalProperties, one, place(name));
  }
}

function checkCombined(state, shape, value, path, wrong) {
  const fits = (schema) => {
    const inner = { ...state, found: [] };
    check(inner, schema, value, path);
    return inner.found.length === 0;
  };
  for (const schema of shape.allOf ?? []) check(state, schema, value, path);
  if (shape.anyOf && !shape.anyOf.some(fits)) wrong("matches none of the allowed shapes", "anyOf");
  if (shape.oneOf) {
    const count = shape.oneOf.filter(fits).length;
    if (count === 0) wrong("matches none of the allowed shapes", "oneOf");
    if (count > 1) wrong("matches more than one of the allowed shapes", "oneOf");
  }
  if (shape.not && fits(shape.not)) wrong("has a shape that is not allowed", "not");
}
