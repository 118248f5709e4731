// RFC 6570 to level 4: which variables a template has, and what it expands to.

const EXPRESSION = /\{([+#./;?&]?)([^{}]+)\}/g;
const RULES = {
  "": { first: "", separator: ",", isNamed: false, isOpen: false },
  "+": { first: "", separator: ",", isNamed: false, isOpen: true },
  "#": { first: "#", separator: ",", isNamed: false, isOpen: true },
  ".": { first: ".", separator: ".", isNamed: false, isOpen: false },
  "/": { first: "/", separator: "/", isNamed: false, isOpen: false },
  ";": { first: ";", separator: ";", isNamed: true, isOpen: false },
  "?": { first: "?", separator: "&", isNamed: true, isOpen: false },
  "&": { first: "&", separator: "&", isNamed: true, isOpen: false },
};

function variablesIn(list) {
  return list.split(",").map((one) => {
    const [, name, prefix, star] = /^([^:*]+)(?::(\d+))?(\*)?$/.exec(one.trim()) ?? [null, one.trim()];
    return { name, length: prefix ? Number(prefix) : null, isExploded: Boolean(star) };
  });
}

/** Names of the variables, in order, each once. */
export function variablesOf(template) {
  const names = [...template.matchAll(EXPRESSION)].flatMap(([, , list]) => variablesIn(list).map((one) => one.name));
  return [...new Set(names)];
}

/** Expand with texts or lists of texts; variables without a value are left out. */
export function expand(template, values) {
  return template.replace(EXPRESSION, (_all, operator, list) => {
    const rule = RULES[operator];
    const parts = variablesIn(list).map((one) => expandOne(one, values[one.name], rule, operator)).filter((part) => part !== null);
    return parts.length ? rule.first + parts.join(rule.separator) : "";
  });
}

function expandOne(variable, value, rule, operator) {
  if (value === undefined || value === null || (Array.isArray(value) && value.length === 0)) return null;
  const encode = (text) => encoded(variable.length === null ? text : [...text].slice(0, variable.length).join(""), rule.isOpen);
  const named = (text) => (text === "" && operator === ";" ? variable.name : `${variable.name}=${text}`);
  if (!Array.isArray(value)) return rule.isNamed ? named(encode(String(value))) : encode(String(value));
  const items = value.map((item) => encode(String(item)));
  if (variable.isExploded) return items.map((item) => (rule.isNamed ? named(item) : item)).join(rule.separator);
  return rule.isNamed ? named(items.join(",")) : items.join(",");
}

function encoded(text, isOpen) {
  const strict = (part) => encodeURIComponent(part).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
  if (!isOpen) return strict(text);
  return text.split(/(%[0-9A-Fa-f]{2}|[:/?#[\]@!$&'()*+,;=])/).map((part, index) => (index % 2 ? part : strict(part))).join("");
}
