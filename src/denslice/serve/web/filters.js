// Filters: rows of field, comparison and value, which become the option `where` of a search.
import { element } from "./elements.js";

const OPERATORS = { eq: "is", ne: "is not", gte: "≥", lte: "≤", gt: ">", lt: "<" };

const at = (id) => document.getElementById(id);
const given = new WeakMap(); // the value of a row that came from a document, with its type
let changed = () => {};

// `callback` is called after each change of a filter.
export function onFilters(callback) {
  changed = callback;
}

export function addFilter(field = "", value = "", operator = "eq") {
  const row = element("li", {});
  const options = Object.entries(OPERATORS).map(([name, shown]) => element("option", { value: name }, shown));
  const parts = [
    element("input", { "aria-label": "Field", placeholder: "field", list: "fields", value: field, dir: "auto" }),
    element("select", { "aria-label": "Comparison" }, ...options),
    element("input", { "aria-label": "Value", placeholder: "value", value: String(value), dir: "auto" }),
    element("button", { type: "button", class: "plain", "aria-label": "Remove this filter" }, "✕"),
  ];
  parts[1].value = operator;
  parts[3].addEventListener("click", () => { row.remove(); changed(); at("add-filter").focus(); });
  for (const part of parts.slice(0, 3)) part.addEventListener("change", () => changed());
  row.append(...parts);
  if (field) given.set(row, value);
  at("filters").append(row);
  if (field) changed(); else parts[0].focus();
}

// Adds a filter for a value of a field, or removes it if there is one.
export function toggleFilter(field, value) {
  const row = rowOf(field, value);
  if (!row) return addFilter(field, value);
  row.remove();
  changed();
}

export function hasFilter(field, value) {
  return rowOf(field, value) !== undefined;
}

function rowOf(field, value) {
  return [...at("filters").children].find((row) => {
    const [name, operator, shown] = cells(row);
    return name === field && operator === "eq" && String(shown) === String(value);
  });
}

// Returns field, comparison and value of a row. A value that was not edited keeps its type.
function cells(row) {
  const [field, operator, value] = [...row.children].map((part) => part.value);
  const isGiven = given.has(row) && String(given.get(row)) === value;
  return [field.trim(), operator, isGiven ? given.get(row) : value.trim()];
}

// Returns field, comparison and value of each filter.
export function filterRows() {
  return [...at("filters").children].map(cells).filter(([field, , value]) => field && value !== "");
}

export function loadFilters(rows) {
  at("filters").replaceChildren();
  for (const row of rows) {
    try {
      const [field, operator, value] = JSON.parse(row);
      if (field && operator in OPERATORS) addFilter(String(field), value, operator);
    } catch { /* the address was edited by hand */ }
  }
}

// Returns the filter of all rows, or null.
export function where() {
  const all = filterRows().map(([field, operator, value]) => {
    const values = valuesOf(value);
    if (operator === "eq") return { [field]: { in: values } };
    if (operator === "ne") return { not: { [field]: { in: values } } };
    return { [field]: { [operator]: values.find((one) => typeof one === "number") ?? value } };
  });
  return all.length ? { and: all } : null;
}

// Returns what a value may be in metadata: a number that is typed matches metadata that hold it as a number or as text.
function valuesOf(value) {
  if (typeof value !== "string") return [value];
  const isNumber = value.trim() !== "" && Number.isFinite(Number(value));
  const truth = { true: true, false: false }[value];
  return [value, ...(isNumber ? [Number(value)] : []), ...(truth === undefined ? [] : [truth])];
}
