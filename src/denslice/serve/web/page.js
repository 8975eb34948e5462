// The state of the page and its searches. results.js draws the results, and summary.js the lines above them.
import { closeCompletions } from "./completions.js";
import { element, number } from "./elements.js";
import { drawFacets, hideFacets, MOST_FIELDS } from "./facets.js";
import { addFilter, filterRows, loadFilters, onFilters, where } from "./filters.js";
import { openDocument } from "./reader.js";
import { request, useKey } from "./requests.js";
import { drawHits, newDrawing } from "./results.js";
import { drawConditions, drawCorrections, drawCount, drawSimilar, indexLine, modelLine } from "./summary.js";

const PAGE = 10; // results of a page
const FOLLOW = 2000; // ms between looks at how many documents are left at the quick level
const DEBOUNCE = 150; // ms between the last change of a setting and the next search

const at = (id) => document.getElementById(id);
const form = at("search"), query = at("query"), lam = at("lam"), theta = at("theta"), results = at("results");
const modes = [...form.elements.mode], units = [...form.elements.unit];
let info = null, submittedEarly = false, running = null, timer = 0;
let isExact = false; // whether words are searched as they were typed
let similar = null; // the document whose like is shown, instead of an answer to the query: its id and title
let drawing = newDrawing(), cursor = null; // what is drawn, and where the next page begins

// --- searches

// Shows the first page, or the page at the cursor.
async function search(next = null) {
  clearTimeout(timer);
  closeCompletions();
  running?.abort();
  if (!query.value.trim() && !similar) return clear();
  const mine = (running = new AbortController());
  results.classList.add("busy");
  try {
    show(await answerTo(next, mine.signal), next);
  } catch (error) {
    if (error.name !== "AbortError") (next ? showError : showOnlyError)(error.message);
  } finally {
    if (running === mine) results.classList.remove("busy");
  }
}

// Returns the result of a page, and milliseconds by stage where the server gives them.
async function answerTo(next, signal) {
  const options = searchOptions(next);
  if (similar) return request(`documents/${encodeURIComponent(similar.id)}/similar?${inAddress(options)}`, { signal });
  const body = JSON.stringify({ ...options, query: query.value.trim(), fuzzy: !isExact });
  const answer = await request("search", { method: "POST", body, signal });
  return { ...answer.results[0], took: answer.took_ms };
}

function searchOptions(next) {
  const mode = chosenMode(), filter = where();
  const options = { k: PAGE, mode, theta: Number(theta.value), group: chosenUnit() === "documents", explain: true };
  if (mode !== "lexical") options.lam = Number(lam.value);
  if (filter) options.where = filter;
  if (next) options.cursor = next;
  else if (info.filterable.length) options.facets = info.filterable.slice(0, MOST_FIELDS);
  return options;
}

function inAddress(options) {
  const { where: filter, facets, ...plain } = options;
  const many = (facets ?? []).map((field) => ["facets", field]);
  return new URLSearchParams([...Object.entries(plain), ...many, ...(filter ? [["where", JSON.stringify(filter)]] : [])]);
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

function chosenMode() {
  return modes.find((one) => one.checked).value;
}

function chosenUnit() {
  return units.find((one) => one.checked).value;
}

// --- results and errors

function show(answer, next) {
  at("error").hidden = at("welcome").hidden = true;
  at("summary").hidden = false;
  if (!next) showFirst(answer);
  const drawn = drawHits(answer.hits, drawing, { addFilter, open, showSimilar });
  at("hits").append(...drawn);
  if (next) drawn[0]?.focus();
  const hidden = [...(where() ? [] : ["filter"]), ...(info.filterable.length ? [] : ["facets"])];
  drawCount(countOf(drawing.hits), answer.missing, answer.took, hidden);
  cursor = answer.cursor;
  at("more").hidden = cursor === null;
  suggestFields(answer.hits);
  saveToAddress();
}

function showFirst(answer) {
  drawing = newDrawing();
  at("hits").replaceChildren();
  drawSimilar(similar);
  drawCorrections(answer.corrections, isExact && !similar, address(!isExact), () => { isExact = !isExact; search(); });
  drawConditions(answer.hits[0]?.explanation.conditions ?? []);
  drawFacets(answer.facets, answer.matching);
}

function countOf(hits) {
  if (hits.length === 0) return chosenUnit() === "documents" ? "No document matches" : "No passage matches";
  return hits.length === 1 ? "1 result" : `${hits.length} results`;
}

function open(hit, matching, number, colours) {
  return openDocument(hit, matching, number, colours, fetchDocument);
}

function showSimilar(hit) {
  similar = { id: hit.id, title: hit.title };
  query.value = "";
  search();
  results.focus({ preventScroll: true });
  scrollTo({ top: 0 });
}

function showError(message) {
  at("error").textContent = message;
  at("error").hidden = false;
}

function showOnlyError(message) {
  showError(message);
  hideResults();
  at("welcome").hidden = true;
}

function hideResults() {
  at("hits").replaceChildren();
  hideFacets();
  for (const id of ["summary", "more", "similar", "corrections", "conditions"]) at(id).hidden = true;
}

function clear() {
  similar = null;
  isExact = false;
  closeCompletions();
  hideResults();
  at("error").hidden = true;
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

function suggestFields(hits) {
  const names = new Set([...info.filterable, ...hits.flatMap((hit) => Object.keys(hit.meta))]);
  at("fields").replaceChildren(...[...names].map((name) => element("option", { value: name })));
}

// --- the address of the page holds the search, so that it can be bookmarked and shared

function address(exact = isExact) {
  const state = new URLSearchParams();
  const text = query.value.trim();
  if (similar) state.set("similar", similar.id);
  else if (text) state.set("q", text);
  else return "./";
  if (exact && !similar) state.set("exact", "1");
  if (chosenMode() !== startMode()) state.set("mode", chosenMode());
  if (chosenUnit() !== "documents") state.set("unit", chosenUnit());
  if (Number(lam.value) !== info.lam) state.set("lam", lam.value);
  if (Number(theta.value) !== 0) state.set("theta", theta.value);
  for (const row of filterRows()) state.append("filter", JSON.stringify(row));
  return `?${state}`;
}

// Another query is another page of the history; another setting is the same page.
function saveToAddress() {
  const next = address();
  document.title = similar ? `Like ${similar.title || similar.id} – denslice` : query.value.trim() ? `${query.value.trim()} – denslice` : "denslice";
  if (next === (location.search || "./")) return;
  const asked = (search) => ["q", "exact", "similar"].map((name) => new URLSearchParams(search).get(name)).join("\n");
  const isSame = asked(next.slice(1)) === asked(location.search);
  history[isSame ? "replaceState" : "pushState"](similar, "", next);
}

// `typed` is what the user typed before the page was ready.
function loadFromAddress(typed = "") {
  const state = new URLSearchParams(location.search), id = state.get("similar");
  similar = id === null ? null : { id, title: history.state?.title ?? "" };
  isExact = state.has("exact");
  query.value = state.get("q") ?? typed;
  const mode = modes.find((one) => one.value === state.get("mode") && !one.disabled);
  (mode ?? modes.find((one) => one.value === startMode())).checked = true;
  (units.find((one) => one.value === state.get("unit")) ?? units[0]).checked = true;
  lam.value = state.get("lam") ?? info.lam;
  theta.value = state.get("theta") ?? 0;
  updateSliders();
  loadFilters(state.getAll("filter"));
  if (state.has("q") || similar || submittedEarly) search(); else clear();
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
  if (query.value.trim()) similar = null;
  if (info) search(); else submittedEarly = true;
});
query.addEventListener("input", () => { isExact = false; });
for (const one of [...modes, ...units, lam, theta]) one.addEventListener("input", searchSoon);
onFilters(searchSoon);
at("add-filter").addEventListener("click", () => addFilter());
at("more").addEventListener("click", () => search(cursor));
at("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  useKey(at("key").value);
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
  at("about").textContent = indexLine(info);
  for (const one of modes) one.disabled = one.value !== "lexical" && !info.dimensions;
  lam.max = number(Math.max(2 * info.lam, 2));
  lam.step = info.lam >= 10 ? 0.5 : 0.05;
  if (matchMedia("(max-width: 40rem)").matches) at("settings").open = false;
  if (matchMedia("(max-width: 56rem)").matches) at("facets").open = false;
  document.body.classList.toggle("with-facets", info.filterable.length > 0);
  at("languages").textContent = modelLine(info);
  suggestFields([]);
  loadFromAddress(query.value);
  if (info.quick) setTimeout(follow, FOLLOW);
}

// Shows how many documents are left at the quick level, until none is.
async function follow() {
  info = await request("index").catch(() => info);
  at("about").textContent = indexLine(info);
  updateSliders();
  if (info.quick) setTimeout(follow, FOLLOW);
}

start();
