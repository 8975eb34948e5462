// Draws results: the score as a bar of its parts, the passage that matches best, and a table of the parts.
import { element, number } from "./elements.js";
import { documentLength, drawMap, excerptOf, marked, placeName, textStart } from "./passages.js";

const COLOURS = 8; // for words
const DENSE = "dense";

// What is drawn of one search, page by page: its hits, the colours of its words, and the length of its longest bar.
export function newDrawing() {
  return { hits: [], colours: new Map([[DENSE, "var(--dense)"]]), best: 1e-9 };
}

// Draws the next hits of a search. `actions` are: addFilter, of a field and a value; open, of a hit, the passages of its
// document that match, the number of one of them and the colours of words; showSimilar, of a hit.
export function drawHits(hits, drawing, actions) {
  const first = drawing.hits.length;
  drawing.hits.push(...hits);
  addColours(hits, drawing.colours);
  if (!first) drawing.best = Math.max(...hits.map(barLength), 1e-9);
  return hits.map((hit, at) => drawHit(hit, first + at, drawing, actions));
}

function barLength(hit) {
  return parts(hit).reduce((sum, part) => sum + Math.max(0, part.share), 0);
}

// Gives a colour to each new word, the word with the largest query weight first; results share the colours.
function addColours(hits, colours) {
  const weights = new Map();
  for (const hit of hits)
    for (const term of [...hit.explanation.terms, ...hit.explanation.lost]) weights.set(term.token, term.query_weight);
  const words = [...weights].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).map(([word]) => `word ${word}`);
  for (const word of words) if (!colours.has(word)) colours.set(word, `var(--word-${(colours.size - 1) % COLOURS})`);
}

// Returns the parts of a score in drawing order: the dense score, then words by their contribution.
function parts(hit) {
  const why = hit.explanation;
  const named = new Map();
  for (const match of why.matches)
    if (!named.has(match.token)) named.set(match.token, [...hit[match.field]].slice(match.start, match.end).join(""));
  const words = why.terms.map((term) => ({ colour: `word ${term.token}`, name: label(term, named),
    share: term.contribution, product: `${number(term.query_weight)} × ${number(term.doc_weight)}`, stem: term.token }));
  return [...denseParts(why), ...words];
}

// Returns the dense score, or in a document of several passages what the best one and all of them add to it.
function denseParts(why) {
  const parts = why.best || why.mean
    ? [["dense, best passage", why.best], ["dense, all passages", why.mean]] : [[DENSE, why.dense]];
  return parts.filter(([, share]) => share !== 0).map(([name, share]) => ({ colour: DENSE, name, share, product: "" }));
}

// Returns the name of a term as the text spells it, with a note if another phrase has the same hash.
function label(term, named = new Map()) {
  const word = named.get(term.token);
  return (word ? word.toLowerCase() : term.token) + (term.collision ? " (hash collision)" : "");
}

function drawHit(hit, rank, drawing, actions) {
  const { colours, best } = drawing, all = parts(hit), matching = matchingPassages(hit, drawing.hits);
  const open = (number) => actions.open(hit, matching, number, colours);
  const item = element("li", { class: "hit", "data-id": hit.id, "data-score": hit.score, tabindex: "-1", "aria-labelledby": `hit-${rank}` });
  const title = element("h2", { id: `hit-${rank}`, dir: "auto" });
  title.append(...marked([...(hit.title || hit.id)], hit.title ? spans(hit, "title") : [], colours), hit.cut?.title ? " …" : "");
  const passage = shownPassage(hit), text = drawPassage(hit, passage, colours, open);
  const why = drawWhy(hit, all, colours, rank);
  const buttons = [action("Similar", () => actions.showSimilar(hit), { "aria-describedby": title.id }),
    toggle("Why", why, { "aria-controls": why.id, "aria-describedby": title.id })];
  if (text.classList.contains("opens"))
    buttons.unshift(action("Whole text", () => open(passage.number), { "aria-haspopup": "dialog", "aria-describedby": title.id }));
  const foot = element("div", { class: "foot" }, element("span", { class: "id" }, hit.title ? hit.id : ""),
    ...chips(hit, actions.addFilter), element("span", { class: "actions" }, ...buttons));
  item.append(
    element("div", { class: "head" }, title, element("span", { class: "score", title: "score" }, number(hit.score))),
    drawWhole(hit, all, colours, best), ...(isPart(passage, hit) ? [drawWhere(hit, passage, matching, open)] : []), text, foot, why);
  return item;
}

// --- the score

function drawWhole(hit, all, colours, best) {
  const shares = all.map((part) => `${part.name} ${number(part.share)}`).join(", ");
  const bar = element("div", { class: "whole", role: "img", "aria-label": `score ${number(hit.score)}: ${shares}` });
  for (const part of all.filter((one) => one.share > 0)) {
    const piece = element("i", { title: `${part.name} ${number(part.share)}` });
    piece.style.width = `${Math.min(100, (100 * part.share) / best)}%`;
    piece.style.setProperty("--colour", colours.get(part.colour));
    bar.append(piece);
  }
  return bar;
}

function drawWhy(hit, all, colours, rank) {
  const why = hit.explanation;
  const weighed = hit.passages.length === 1 && isPart(hit.passages[0], hit) ? "passage" : "document";
  const longest = Math.max(...all.map((part) => Math.abs(part.share)), 1e-9);
  const rows = all.map((part) => {
    const bar = element("div", {});
    bar.style.width = `${(100 * Math.abs(part.share)) / longest}%`;
    bar.style.setProperty("--colour", colours.get(part.colour));
    const name = element("th", { scope: "row", dir: "auto", title: part.stem && part.stem !== part.name ? `stem: ${part.stem}` : part.name }, part.name);
    return element("tr", { "data-share": part.share }, name,
      element("td", { class: part.share < 0 ? "bar minus" : "bar", "aria-hidden": "true" }, bar),
      element("td", { class: "product" }, part.product), element("td", { class: "share" }, number(part.share)));
  });
  const lost = why.lost.map((term) => element("tr", { class: "lost" }, element("th", { scope: "row", dir: "auto" }, label(term)),
    element("td", { class: "bar" }, "dropped by the slicing"),
    element("td", { class: "product" }, `${number(term.query_weight)} × ${number(term.doc_weight)}`),
    element("td", { class: "share" }, "0")));
  const total = element("tr", {}, element("th", { scope: "row" }, "score"), element("td", { "aria-hidden": "true" }),
    element("td", { class: "product" }), element("td", { class: "share" }, number(why.score)));
  const table = element("table", { class: "why", id: `why-${rank}` },
    element("caption", {}, `Contribution of each part: query weight × ${weighed} weight`),
    element("tbody", {}, ...rows, ...lost), element("tfoot", {}, total));
  table.hidden = true;
  return table;
}

// --- the passage

function spans(hit, field) {
  return hit.explanation.matches.filter((match) => match.field === field);
}

// Returns the passages of a hit's document that match: its own, or those of all hits if each is a passage.
function matchingPassages(hit, hits) {
  const all = hits.filter((one) => one.id === hit.id).flatMap((one) => one.passages);
  return all.filter((passage) => passage.score > 0 || passage === hit.passages[0]);
}

// Returns the passage that a hit shows. A document that was deleted after the search has none.
function shownPassage(hit) {
  return hit.passages[0] ?? { number: 0, start: 0, end: [...hit.text].length, text: hit.text, matches: [] };
}

function isPart(passage, hit) {
  return passage.end - passage.start < documentLength(hit);
}

function drawPassage(hit, passage, colours, open) {
  const letters = [...passage.text], excerpt = excerptOf(letters, passage.matches);
  const first = textStart(passage), length = documentLength(hit);
  const before = first + excerpt.start > 0 ? "… " : "", after = first + excerpt.end < length ? " …" : "";
  const text = element("p", { class: "text", dir: "auto" }, before, ...marked(letters, passage.matches, colours, excerpt), after);
  if (before || after) {
    text.classList.add("opens");
    text.addEventListener("click", () => { if (getSelection().isCollapsed) open(passage.number); });
  }
  return text;
}

// Draws the place of the passage, and where in the document it and others match.
function drawWhere(hit, passage, matching, open) {
  const whole = { title: hit.title, length: documentLength(hit), letters: hit.cut?.text ? null : [...hit.text] };
  const name = placeName(passage, whole);
  const place = element("button", { type: "button", class: "place", dir: "auto", title: `Open the document at: ${name}` }, name);
  place.addEventListener("click", () => open(passage.number));
  return element("div", { class: "where" }, place, drawMap(matching, whole, passage.number, open));
}

// --- below the text

function chips(hit, addFilter) {
  const plain = Object.entries(hit.meta).filter(([, value]) => ["string", "number", "boolean"].includes(typeof value));
  return plain.slice(0, 6).map(([field, value]) => {
    const chip = element("button", { type: "button", class: "chip", dir: "auto", title: "Show only documents with this value" }, `${field}: ${value}`);
    chip.addEventListener("click", () => addFilter(field, value));
    return chip;
  });
}

function action(name, act, attributes) {
  const button = element("button", { type: "button", class: "plain", ...attributes }, name);
  button.addEventListener("click", act);
  return button;
}

function toggle(name, target, attributes) {
  const button = element("button", { type: "button", class: "plain", "aria-expanded": "false", ...attributes }, name);
  button.addEventListener("click", () => {
    target.hidden = !target.hidden;
    button.setAttribute("aria-expanded", String(!target.hidden));
  });
  return button;
}
