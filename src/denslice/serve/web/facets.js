// Facets: how many matching documents have each value of the filterable fields. A click filters by a value.
import { element } from "./elements.js";
import { hasFilter, toggleFilter } from "./filters.js";

const SHOWN = 8; // values of a field before the rest is asked for
export const MOST_FIELDS = 20; // of one request

const panel = document.getElementById("facets"), body = document.getElementById("facet-fields");
const opened = new Set(); // fields of which all values are shown

export function drawFacets(facets, matching) {
  const fields = Object.entries(facets).filter(([, values]) => values.length);
  panel.hidden = fields.length === 0;
  const documents = matching === 1 ? "1 matching document" : `${(matching ?? 0).toLocaleString("en")} matching documents`;
  document.getElementById("matching").textContent = documents;
  const focused = document.activeElement?.dataset?.facet;
  body.replaceChildren(...fields.map(([field, values], number) => drawField(field, values, number)));
  if (focused) [...body.querySelectorAll("button")].find((one) => one.dataset.facet === focused)?.focus();
}

export function hideFacets() {
  panel.hidden = true;
}

function drawField(field, values, number) {
  const heading = element("h3", { id: `facet-${number}`, dir: "auto" }, field);
  const items = values.map((one) => element("li", {}, drawValue(field, one)));
  const list = element("ul", { "aria-labelledby": heading.id }, ...items);
  const section = element("section", {}, heading, list);
  if (items.length <= SHOWN || opened.has(field)) return section;
  for (const item of items.slice(SHOWN)) item.hidden = true;
  section.append(restButton(field, items));
  return section;
}

function drawValue(field, { value, count }) {
  const isPressed = hasFilter(field, value);
  const shown = value === "" ? "(empty)" : String(value);
  const button = element("button", { type: "button", class: "facet", "aria-pressed": String(isPressed),
    "data-facet": JSON.stringify([field, value]), title: isPressed ? "Remove this filter" : "Show only documents with this value" },
    element("span", { class: "value", dir: "auto" }, shown), element("span", { class: "count" }, count.toLocaleString("en")));
  if (value === "") button.disabled = true; // a filter has no empty value
  button.addEventListener("click", () => toggleFilter(field, value));
  return button;
}

function restButton(field, items) {
  const button = element("button", { type: "button", class: "plain" }, `${items.length - SHOWN} more`);
  button.addEventListener("click", () => {
    opened.add(field);
    for (const item of items) item.hidden = false;
    button.remove();
    items[SHOWN].firstChild.focus();
  });
  return button;
}
