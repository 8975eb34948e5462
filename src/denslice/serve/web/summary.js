// The lines above the results: how many, how long each stage took, and how the query was understood.
import { element, number } from "./elements.js";

const STAGES = ["queue", "encode", "filter", "search", "facets", "documents", "explain"];
const NAMED = 12; // languages before the rest is counted

const at = (id) => document.getElementById(id);

// `took` has milliseconds by stage, or is null; `hidden` are stages that this search does not have.
export function drawCount(found, missing, took, hidden) {
  const incomplete = missing.length ? `; no answer from ${missing.join(", ")}` : "";
  at("count").textContent = `${found}${took ? ` in ${number(took.total)} ms` : ""}${incomplete}`;
  const stages = took ? STAGES.filter((name) => name in took && !hidden.includes(name)) : [];
  at("stages").replaceChildren(...stages.map((name) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, number(took[name])))));
}

export function drawConditions(conditions) {
  const chips = conditions.map((one) => element("li", {}, element("span", { class: "chip", dir: "auto" }, one)));
  at("conditions").replaceChildren(...chips);
  at("conditions").hidden = chips.length === 0;
}

// Says which words were taken for others, or that none were. `other` is the address of the search without corrections,
// or with them if this one has none; `follow` searches it.
export function drawCorrections(corrections, isExact, other, follow) {
  const line = at("corrections");
  line.hidden = corrections.length === 0 && !isExact;
  if (isExact) return line.replaceChildren("Showing results for exactly what was typed. ", link("Correct words", other, follow));
  const told = corrections.flatMap(({ typed, meant }, place) => [place ? ", " : "", word("b", meant), " instead of ", word("span", typed)]);
  line.replaceChildren("Showing results for ", ...told, ". ", link("Search exactly what was typed", other, follow));
}

function word(tag, text) {
  return element(tag, { dir: "auto" }, text);
}

function link(text, address, follow) {
  const made = element("a", { href: address }, text);
  made.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return; // the browser opens it elsewhere
    event.preventDefault();
    follow();
  });
  return made;
}

// Says that the results are like a document, if they are.
export function drawSimilar(similar) {
  at("similar").hidden = !similar;
  at("similar").replaceChildren("Documents like ", word("b", similar ? similar.title || similar.id : ""));
}

// Describes the index in the head of the page.
export function indexLine({ documents, quick, encoder, slices }) {
  const kept = slices === null ? "every token" : `${slices} slices`;
  const left = quick ? `, ${quick.toLocaleString("en")} at the quick level` : "";
  return `${documents.toLocaleString("en")} documents${left} · ${encoder} · ${kept}`;
}

// Says when words alone decide: with an earlier edition of the model, or in the languages that it does not know.
export function modelLine({ dimensions, languages, model_languages: known, earlier_model: isEarlier }) {
  if (isEarlier) return "Words alone decide: an earlier edition of the model made this index. denslice upgrade renews it.";
  const others = Object.entries(languages).filter(([name]) => !known.includes(name)).sort((a, b) => b[1] - a[1]);
  if (!dimensions || !known.length || !others.length) return "";
  const names = others.slice(0, NAMED).map(([name]) => capitalized(name));
  const rest = others.length > NAMED ? ` and ${others.length - NAMED} more` : "";
  return `Dense vectors: ${known.map(capitalized).join(", ")} only; words decide for ${names.join(", ")}${rest}.`;
}

function capitalized(name) {
  return name.charAt(0).toUpperCase() + name.slice(1);
}
