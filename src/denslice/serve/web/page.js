// The state of the page and its requests to the server; results.js draws the results.
import { element, number } from "./elements.js";
import { openDocument } from "./reader.js";
import { drawHits } from "./results.js";

const PAGE = 10; // results of the first page, and of each "Show more"
const DEBOUNCE = 150; // ms between the last change of a setting and the next search
const STAGES = ["queue", "encode", "filter", "search", "documents", "explain"];
const OPERATORS = { eq: "is", ne: "is not", gte: "≥", lte: "≤", gt: ">", lt: "<" };

const at = (id) => document.getElementById(id);
const form = at("search"), query = at("query"), lam = at("lam"), theta = at("theta"), results = at("results");
const modes = [...form.elements.mode], units = [...form.elements.unit];
let info = null, submittedEarly = false, k = PAGE, running = null, timer = 0;

// --- requests

async function request(path, options = {}) {
  const headers = { "Content-Type": "application/json" };
  const key = sessionStorage.getItem("key");
  if (key) headers.Authorization = `Bearer ${key}`;
  const response = await fetch(path, { ...options, headers });
  at("key-form").hidden = response.status !== 401;
  if (response.status === 401) at("key").focus();
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error.message);
  return answer;
}

async function search() {
  clearTimeout(timer);
  running?.abort();
  const text = query.value.trim();
  if (!text) return clear();
  const mine = (running = new AbortController());
  results.classList.add("busy");
  try {
    const answer = await request("search", { method: "POST", body: JSON.stringify(searchBody(text)), signal: mine.signal });
    show(answer);
  } catch (error) {
    if (error.name !== "AbortError") showOnlyError(error.message);
  } finally {
    if (running === mine) results.classList.remove("busy");
  }
}

// Fetches a whole document. If that fails, shows the error and returns null.
async function fetchDocument(id) {
  try {
    return await request(`documents/${encodeURIComponent(id)}`);
  } catch (error) {
    showError(error.message);
    return null;
  }
}

function searchBody(text) {
  const mode = chosenMode();
  const body = { query: text, k, mode, theta: Number(theta.value), group: chosenUnit() === "documents", explain: true };
  if (mode !== "lexical") body.lam = Number(lam.value);
  const where = filters();
  if (where) body.where = where;
  return body;
}

function chosenMode() {
  return modes.find((one) => one.checked).value;
}

function chosenUnit() {
  return units.find((one) => one.checked).value;
}

// --- results and errors

function show(answer) {
  const { hits, missing } = answer.results[0];
  at("error").hidden = at("welcome").hidden = true;
  at("summary").hidden = false;
  const none = chosenUnit() === "documents" ? "No document matches" : "No passage matches";
  const found = hits.length === 0 ? none : hits.length === 1 ? "1 result" : `${hits.length} results`;
  const incomplete = missing.length ? `; no answer from ${missing.join(", ")}` : "";
  at("count").textContent = `${found} in ${number(answer.took_ms.total)} ms${incomplete}`;
  const stages = STAGES.filter((name) => name in answer.took_ms && !(name === "filter" && !filters()));
  at("stages").replaceChildren(...stages.map((name) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, number(answer.took_ms[name])))));
  at("hits").replaceChildren(...drawHits(hits, addFilter, open));
  at("more").hidden = hits.length < k || k + PAGE > Math.min(info.limits.max_k, info.limits.max_explained);
  suggestFields(hits);
  saveToAddress();
}

function open(hit, matching, number, colours) {
  return openDocument(hit, matching, number, colours, fetchDocument);
}

function showError(message) {
  at("error").textContent = message;
  at("error").hidden = false;
}

function showOnlyError(message) {
  showError(message);
  at("hits").replaceChildren();
  at("summary").hidden = at("more").hidden = at("welcome").hidden = true;
}

function clear() {
  at("hits").replaceChildren();
  at("summary").hidden = at("more").hidden = at("error").hidden = true;
  at("welcome").hidden = false;
  results.classList.remove("busy");
  saveToAddress();
}

function updateSliders() {
  const mode = chosenMode();
  at("lam-value").textContent = number(Number(lam.value));
  at("theta-value").textContent = Number(theta.value) === 0 ? "0 (exact)" : number(Number(theta.value));
  for (const [slider, off] of [[lam, mode === "lexical"], [theta, mode === "dense"]]) {
    slider.disabled = off;
    slider.parentElement.classList.toggle("off", off);
  }
}

// --- filters

function addFilter(field = "", value = "", operator = "eq") {
  const row = element("li", {});
  const options = Object.entries(OPERATORS).map(([name, shown]) => element("option", { value: name }, shown));
  const parts = [
    element("input", { "aria-label": "Field", placeholder: "field", list: "fields", value: field }),
    element("select", { "aria-label": "Comparison" }, ...options),
    element("input", { "aria-label": "Value", placeholder: "value", value: String(value) }),
    element("button", { type: "button", class: "plain", "aria-label": "Remove this filter" }, "✕"),
  ];
  parts[1].value = operator;
  parts[3].addEventListener("click", () => { row.remove(); searchSoon(); at("add-filter").focus(); });
  for (const part of parts.slice(0, 3)) part.addEventListener("change", searchSoon);
  row.append(...parts);
  at("filters").append(row);
  if (field) searchSoon(); else parts[0].focus();
}

// Returns the filter of all rows. A number matches metadata that holds it as a number or as text.
function filters() {
  const rows = [...at("filters").children].map((row) => [...row.children].map((part) => part.value.trim()));
  const all = rows.filter(([field, , value]) => field && value).map(([field, operator, value]) => {
    const isNumber = value !== "" && Number.isFinite(Number(value));
    const truth = { true: true, false: false }[value];
    const values = [value, ...(isNumber ? [Number(value)] : []), ...(truth === undefined ? [] : [truth])];
    if (operator === "eq") return { [field]: { in: values } };
    if (operator === "ne") return { not: { [field]: { in: values } } };
    return { [field]: { [operator]: isNumber ? Number(value) : value } };
  });
  return all.length ? { and: all } : null;
}

function suggestFields(hits) {
  const names = new Set([...info.filterable, ...hits.flatMap((hit) => Object.keys(hit.meta))]);
  at("fields").replaceChildren(...[...names].map((name) => element("option", { value: name })));
}

// --- the address of the page holds the search, so that it can be bookmarked and shared

function saveToAddress() {
  const state = new URLSearchParams();
  const text = query.value.trim();
  if (text) state.set("q", text);
  if (text && chosenMode() !== startMode()) state.set("mode", chosenMode());
  if (text && chosenUnit() !== "documents") state.set("unit", chosenUnit());
  if (text && Number(lam.value) !== info.lam) state.set("lam", lam.value);
  if (text && Number(theta.value) !== 0) state.set("theta", theta.value);
  for (const row of at("filters").children) {
    const [field, operator, value] = [...row.children].map((part) => part.value.trim());
    if (text && field && value) state.append("filter", JSON.stringify([field, operator, value]));
  }
  const address = state.size ? `?${state}` : "./";
  if (address === (location.search || "./")) return;
  const known = new URLSearchParams(location.search).get("q");
  if (known === (text || null)) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  document.title = text ? `${text} – denslice` : "denslice";
}

// `typed` is what the user typed before the page was ready.
function loadFromAddress(typed = "") {
  const state = new URLSearchParams(location.search);
  query.value = state.get("q") ?? typed;
  const mode = modes.find((one) => one.value === state.get("mode") && !one.disabled);
  (mode ?? modes.find((one) => one.value === startMode())).checked = true;
  (units.find((one) => one.value === state.get("unit")) ?? units[0]).checked = true;
  lam.value = state.get("lam") ?? info.lam;
  theta.value = state.get("theta") ?? 0;
  at("filters").replaceChildren();
  k = PAGE;
  updateSliders();
  for (const filter of state.getAll("filter")) {
    try {
      const [field, operator, value] = JSON.parse(filter);
      if (field && operator in OPERATORS) addFilter(String(field), String(value), operator);
    } catch { /* the address was edited by hand */ }
  }
  if (state.has("q") || submittedEarly) search(); else clear();
  submittedEarly = false;
}

function startMode() {
  return info.dimensions ? "hybrid" : "lexical";
}

// --- events

function searchSoon() {
  if (!info) return;
  updateSliders();
  clearTimeout(timer);
  timer = setTimeout(search, DEBOUNCE);
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  k = PAGE;
  if (info) search(); else submittedEarly = true;
});
for (const one of [...modes, ...units, lam, theta]) one.addEventListener("input", searchSoon);
at("add-filter").addEventListener("click", () => addFilter());
at("more").addEventListener("click", () => { k += PAGE; search(); });
at("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("key", at("key").value);
  start();
});
addEventListener("popstate", () => loadFromAddress());
addEventListener("keydown", (event) => {
  const typing = event.target.closest("input:not([type=range], [type=radio]), select");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    query.select();
  } else if (event.key === "Escape" && event.target === query) {
    query.value = "";
    clear();
  }
});

// --- light and dark

function theme(chosen) {
  if (chosen) document.documentElement.dataset.theme = chosen;
  const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  at("theme").textContent = dark ? "☀" : "☾";
  return dark;
}

at("theme").addEventListener("click", () => {
  const dark = theme(document.documentElement.dataset.theme);
  localStorage.setItem("theme", dark ? "light" : "dark");
  theme(dark ? "light" : "dark");
});
theme(localStorage.getItem("theme"));

// --- start

async function start() {
  try {
    info = await request("index");
  } catch (error) {
    return showOnlyError(error.message);
  }
  const kept = info.slices === null ? "every token" : `${info.slices} slices`;
  at("about").textContent = `${info.documents.toLocaleString("en")} documents · ${info.encoder} · ${kept}`;
  for (const one of modes) one.disabled = one.value !== "lexical" && !info.dimensions;
  lam.max = number(Math.max(2 * info.lam, 2));
  lam.step = info.lam >= 10 ? 0.5 : 0.05;
  if (matchMedia("(max-width: 40rem)").matches) at("settings").open = false;
  suggestFields([]);
  loadFromAddress(query.value);
}

start();
