// A form made from a JSON Schema, and the fields that hold other fields.

import { button, h } from "./dom.js";
import { isObject } from "./json.js";
import { choicesOf, normalise, pointerPart } from "./schema.js";
import { validate } from "./validate.js";
import { line } from "./text.js";
import { Field, UNSET } from "./field-parts.js";
import { ChoiceField, JsonField, TextField } from "./fields.js";

const DEEPEST = 8;
const SIMPLE = new Set(["string", "integer", "number"]);

/** Make the field that fits a schema. */
function makeField(form, schema, place) {
  const { shape, isNullable } = normalise(schema, form.schema);
  const choices = choicesOf(shape, form.schema);
  if (choices) return new ChoiceField(form, shape, place, { choices, isNullable });
  const mayNest = place.depth < DEEPEST && !isNullable;
  const isUnion = Boolean(shape.oneOf ?? shape.anyOf);
  if (mayNest && isUnion) return new UnionField(form, shape, place);
  if (mayNest && shape.type === "object" && (hasProperties(shape) || place.depth === 0)) return new ObjectField(form, shape, place);
  if (mayNest && shape.type === "array" && isObject(shape.items)) return new ArrayField(form, shape, place);
  if (SIMPLE.has(shape.type)) return new TextField(form, shape, place, isNullable);
  return new JsonField(form, shape, place);
}

const hasProperties = (shape) => isObject(shape.properties) && Object.keys(shape.properties).length > 0;

/** An object: a field for each property; members that the schema does not name are kept. */
class ObjectField extends Field {
  constructor(form, shape, place) {
    super(form, shape, place);
    Object.assign(this, { children: new Map(), extra: {}, isOn: place.isRequired || place.depth === 0 });
    this.box = h("div", { class: "fields" });
    if (place.depth === 0) this.put(this.error, this.box);
    else this.put(this.fieldset());
    if (this.isOn) this.open();
    if (isObject(shape.default)) this.write(shape.default);
  }

  fieldset() {
    const set = h("fieldset", {}, this.legend(), this.help, this.error);
    if (!this.isRequired) {
      this.toggle = h("input", { type: "checkbox", onchange: () => { this.setOn(this.toggle.checked); this.changed(); } });
      set.append(h("label", { class: "inline" }, this.toggle, ` Send “${this.title}”`));
    }
    set.append(this.box);
    return set;
  }

  setOn(isOn) {
    this.isOn = isOn;
    if (this.toggle) this.toggle.checked = isOn;
    if (isOn) this.open();
    this.box.hidden = !isOn;
  }

  /** Children are made when they are first needed, so a recursive schema ends. */
  open() {
    if (this.children.size) return;
    const required = new Set(Array.isArray(this.shape.required) ? this.shape.required : []);
    for (const [name, schema] of Object.entries(this.shape.properties ?? {})) {
      const path = `${this.path}/${pointerPart(name)}`;
      const child = makeField(this.form, schema, { name, path, isRequired: required.has(name), depth: this.depth + 1 });
      this.children.set(name, child);
      this.box.append(child.element);
    }
  }

  read() {
    if (!this.isOn) return UNSET;
    const value = { ...this.extra };
    for (const [name, child] of this.children) {
      const own = child.read();
      if (own !== UNSET) value[name] = own;
    }
    return value;
  }

  write(value) {
    if (!isObject(value)) return;
    this.setOn(true);
    this.extra = {};
    for (const [name, one] of Object.entries(value)) {
      if (this.children.has(name)) this.children.get(name).write(one);
      else this.extra[name] = one;
    }
  }
}

/** A list with "add" and "remove". */
class ArrayField extends Field {
  constructor(form, shape, place) {
    super(form, shape, place);
    Object.assign(this, { items: [], list: h("ol", { class: "items" }) });
    this.adder = button(`Add to ${this.title}`, () => { this.add(undefined, true); this.changed(); }, { class: "small" });
    this.put(h("fieldset", {}, this.legend(), this.help, this.error, this.list, this.adder));
    if (Array.isArray(shape.default)) this.write(shape.default);
  }

  add(value, isTyped) {
    const number = this.items.length + 1;
    const place = { name: `${this.title} ${number}`, path: `${this.path}/${number - 1}`, isRequired: true, depth: this.depth + 1 };
    const field = makeField(this.form, this.shape.items, place);
    const remover = button("Remove", () => this.remove(item), { class: "small" });
    const item = { field, remover, row: h("li", {}, field.element, remover) };
    this.items.push(item);
    this.list.append(item.row);
    if (value !== undefined) field.write(value);
    this.renumber();
    if (isTyped) field.element.querySelector("input,select,textarea")?.focus();
  }

  remove(item) {
    const index = this.items.indexOf(item);
    this.items.splice(index, 1);
    item.row.remove();
    this.renumber();
    (this.items[Math.max(0, index - 1)]?.remover ?? this.adder).focus();
    this.changed();
  }

  renumber() {
    this.items.forEach(({ field, remover }, index) => {
      remover.setAttribute("aria-label", `Remove ${this.title} ${index + 1}`);
      this.form.fields.delete(field.path);
      field.path = `${this.path}/${index}`;
    });
    for (const { field } of this.items) this.form.fields.set(field.path, field);
  }

  read() {
    if (this.items.length === 0) return this.isRequired || this.wasWritten ? [] : UNSET;
    return this.items.map(({ field }) => field.read()).map((one) => (one === UNSET ? null : one));
  }

  write(value) {
    if (!Array.isArray(value)) return;
    this.wasWritten = true;
    this.items.splice(0).forEach(({ row }) => row.remove());
    for (const one of value) this.add(one);
  }
}

/** One of several shapes: a choice, and the form of the chosen one. */
class UnionField extends Field {
  constructor(form, shape, place) {
    super(form, shape, place);
    this.shapes = (shape.oneOf ?? shape.anyOf).map((one) => withBase(shape, normalise(one, form.schema).shape));
    const options = this.shapes.map((one, index) => h("option", { value: String(index) }, shapeName(one, index)));
    const blank = place.isRequired ? null : h("option", { value: "" }, "(not set)");
    const onchange = () => { this.pick(); this.changed(); };
    this.select = this.described(h("select", { id: this.id, onchange }, blank, options));
    this.box = h("div", {});
    this.put(this.labelFor(this.id, `${this.title}: shape`), this.help, this.select, this.error, this.box);
    this.pick();
  }

  pick() {
    this.box.replaceChildren();
    this.inner = null;
    if (this.select.value === "") return;
    const shape = { title: this.title, ...this.shapes[Number(this.select.value)] };
    const place = { name: this.name, path: this.path, isRequired: true, depth: this.depth === 0 ? 0 : this.depth + 1 };
    this.inner = makeField(this.form, shape, place);
    this.form.fields.set(this.path, this);
    this.box.append(this.inner.element);
  }

  read() {
    return this.inner ? this.inner.read() : UNSET;
  }

  write(value) {
    const index = this.shapes.findIndex((shape) => validate(shape, value, this.form.schema).length === 0);
    if (index >= 0) this.select.value = String(index);
    this.pick();
    this.inner?.write(value);
  }
}

function withBase(whole, shape) {
  const { oneOf, anyOf, description, ...base } = whole;
  if (!base.properties && base.type !== "object") return shape;
  return {
    ...base, ...shape,
    properties: { ...base.properties, ...shape.properties },
    required: [...(base.required ?? []), ...(shape.required ?? [])],
  };
}

function shapeName(shape, index) {
  const fixed = Object.entries(shape.properties ?? {})
    .filter(([, one]) => isObject(one) && "const" in one)
    .map(([name, one]) => `${name} = ${JSON.stringify(one.const)}`);
  const type = Array.isArray(shape.type) ? shape.type.join(" or ") : shape.type;
  return line(shape.title || fixed.join(", ") || type || `shape ${index + 1}`, 80);
}

/** The form itself: `value`, `write(value)`, `validate()`, `showErrors(list)`. */
export class SchemaForm {
  constructor(schema, { value, onchange = () => {} } = {}) {
    Object.assign(this, { schema: isObject(schema) ? schema : {}, fields: new Map(), onchange });
    const { type, properties, anyOf, oneOf, allOf, $ref } = this.schema;
    const isShaped = type || properties || anyOf || oneOf || allOf || $ref;
    const top = isShaped ? this.schema : { ...this.schema, type: "object" };
    this.field = makeField(this, top, { name: "", path: "", isRequired: true, depth: 0 });
    this.element = this.field.element;
    if (value !== undefined) this.field.write(value);
  }

  get isEmpty() {
    return this.fields.size <= 1 && this.field instanceof ObjectField;
  }

  get value() {
    const value = this.field.read();
    return value === UNSET ? {} : value;
  }

  changed() {
    this.onchange(this);
  }

  validate() {
    const found = validate(this.schema, this.value);
    for (const [path, field] of this.fields) {
      if (field.fault) found.push({ path, message: field.fault, keyword: "json" });
    }
    return found;
  }

  /** Show errors at their fields, from here or from the hub; returns those without a field. */
  showErrors(list) {
    for (const field of this.fields.values()) field.showError("");
    const byPath = Map.groupBy ? Map.groupBy(list, (one) => one.path) : grouped(list);
    const homeless = [];
    for (const [path, errors] of byPath) {
      const field = this.fields.get(path);
      if (field) field.showError(errors.map((one) => one.message).join("; "));
      else homeless.push(...errors);
    }
    return homeless;
  }

  focusFirstError() {
    const control = this.element.querySelector('[aria-invalid="true"]');
    control?.focus();
    return Boolean(control);
  }
}

function grouped(list) {
  const groups = new Map();
  for (const one of list) groups.set(one.path, [...(groups.get(one.path) ?? []), one]);
  return groups;
}
