// Draws results: the score as a bar of its parts, the text with its matches marked, and a table of the parts.
// Texts are inserted as text nodes, never as markup.

const COLOURS = 8; // for words
const EXCERPT = 340; // characters of a text that are shown
const LEAD = 60; // characters before the first match
const DENSE = "dense";

export function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

export function number(value) {
  return value.toFixed(Math.abs(value) < 100 ? 2 : 1);
}

// `addFilter` takes a field and a value; `fetchText` fetches the whole text of the document with an id.
export function drawHits(hits, addFilter, fetchText) {
  const colours = coloursOf(hits);
  const best = Math.max(...hits.map((hit) => parts(hit).reduce((sum, part) => sum + Math.max(0, part.share), 0)), 1e-9);
  return hits.map((hit, rank) => drawHit(hit, rank, colours, best, addFilter, fetchText));
}

// Returns a colour for each word, the word with the largest query weight first; results share the colours.
function coloursOf(hits) {
  const weights = new Map();
  for (const hit of hits)
    for (const term of [...hit.explanation.terms, ...hit.explanation.lost]) weights.set(term.token, term.query_weight);
  const words = [...weights].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).map(([word]) => word);
  return new Map([[DENSE, "var(--dense)"], ...words.map((word, at) => [`word ${word}`, `var(--word-${at % COLOURS})`])]);
}

// Returns the parts of a score in drawing order: the dense score, then words by their contribution.
function parts(hit) {
  const why = hit.explanation;
  const named = new Map();
  for (const match of why.matches)
    if (!named.has(match.token)) named.set(match.token, [...hit[match.field]].slice(match.start, match.end).join(""));
  const words = why.terms.map((term) => ({ colour: `word ${term.token}`, name: label(term, named),
    share: term.contribution, product: `${number(term.query_weight)} × ${number(term.doc_weight)}`, stem: term.token }));
  const dense = why.dense === 0 ? [] : [{ colour: DENSE, name: DENSE, share: why.dense, product: "" }];
  return [...dense, ...words];
}

// Returns the name of a term as the text spells it, with a note if another phrase has the same hash.
function label(term, named = new Map()) {
  const word = named.get(term.token);
  return (word ? word.toLowerCase() : term.token) + (term.collision ? " (hash collision)" : "");
}

function drawHit(hit, rank, colours, best, addFilter, fetchText) {
  const all = parts(hit);
  const item = element("li", { class: "hit", "data-id": hit.id, "data-score": hit.score });
  const title = element("h2", { id: `hit-${rank}` });
  title.append(...marked(hit.title || hit.id, hit.title ? spans(hit, "title") : [], colours), hit.cut?.title ? " …" : "");
  const text = element("p", { class: "text" });
  const excerpt = excerptOf(hit);
  const part = hit.cut?.text ?? { start: 0, length: excerpt.length };
  const start = part.start + excerpt.start > 0 ? "… " : "", end = part.start + excerpt.end < part.length ? " …" : "";
  text.append(start, ...marked(hit.text, spans(hit, "text"), colours, excerpt), end);
  const why = drawWhy(hit, all, colours, rank);
  const foot = element("div", { class: "foot" }, element("span", { class: "id" }, hit.title ? hit.id : ""), ...chips(hit, addFilter));
  const actions = element("span", { class: "actions" });
  if (start || end) actions.append(wholeText(hit, text, colours, fetchText));
  actions.append(toggle("Why", why, { "aria-controls": why.id, "aria-describedby": title.id }));
  foot.append(actions);
  item.append(
    element("div", { class: "head" }, title, element("span", { class: "score", title: "score" }, number(hit.score))),
    drawWhole(hit, all, colours, best), text, foot, why);
  return item;
}

// --- the score

function drawWhole(hit, all, colours, best) {
  const shares = all.map((part) => `${part.name} ${number(part.share)}`).join(", ");
  const bar = element("div", { class: "whole", role: "img", "aria-label": `score ${number(hit.score)}: ${shares}` });
  for (const part of all.filter((one) => one.share > 0)) {
    const piece = element("i", { title: `${part.name} ${number(part.share)}` });
    piece.style.width = `${(100 * part.share) / best}%`;
    piece.style.setProperty("--colour", colours.get(part.colour));
    bar.append(piece);
  }
  return bar;
}

function drawWhy(hit, all, colours, rank) {
  const why = hit.explanation;
  const longest = Math.max(...all.map((part) => Math.abs(part.share)), 1e-9);
  const rows = all.map((part) => {
    const bar = element("div", {});
    bar.style.width = `${(100 * Math.abs(part.share)) / longest}%`;
    bar.style.setProperty("--colour", colours.get(part.colour));
    const name = element("th", { scope: "row", title: part.stem && part.stem !== part.name ? `stem: ${part.stem}` : part.name }, part.name);
    return element("tr", { "data-share": part.share }, name,
      element("td", { class: part.share < 0 ? "bar minus" : "bar", "aria-hidden": "true" }, bar),
      element("td", { class: "product" }, part.product), element("td", { class: "share" }, number(part.share)));
  });
  const lost = why.lost.map((term) => element("tr", { class: "lost" }, element("th", { scope: "row" }, label(term)),
    element("td", { class: "bar" }, "dropped by the slicing"),
    element("td", { class: "product" }, `${number(term.query_weight)} × ${number(term.doc_weight)}`),
    element("td", { class: "share" }, "0")));
  const total = element("tr", {}, element("th", { scope: "row" }, "score"), element("td", { "aria-hidden": "true" }),
    element("td", { class: "product" }), element("td", { class: "share" }, number(why.score)));
  const table = element("table", { class: "why", id: `why-${rank}` },
    element("caption", {}, "Contribution of each part: query weight × document weight"),
    element("tbody", {}, ...rows, ...lost), element("tfoot", {}, total));
  table.hidden = true;
  return table;
}

// --- the text

function spans(hit, field) {
  return hit.explanation.matches.filter((match) => match.field === field);
}

// Returns pieces of a text with its matches marked. Positions are in code points, not in JavaScript's UTF-16 units.
function marked(text, matches, colours, part = { start: 0, end: Infinity }) {
  const letters = [...text], pieces = [];
  let at = part.start;
  for (const match of matches) {
    if (match.start < at || match.end > part.end) continue;
    pieces.push(letters.slice(at, match.start).join(""));
    const mark = element("mark", {}, letters.slice(match.start, match.end).join(""));
    mark.style.setProperty("--colour", colours.get(`word ${match.token}`));
    pieces.push(mark);
    at = match.end;
  }
  pieces.push(letters.slice(at, part.end).join(""));
  return pieces;
}

// Returns the excerpt that holds the most different words of the query.
function excerptOf(hit) {
  const letters = [...hit.text], best = bestStart(spans(hit, "text"));
  const length = letters.length;
  if (length <= EXCERPT * 1.2) return { start: 0, end: length, length };
  let start = best <= LEAD * 2 ? 0 : best - LEAD;
  while (start > 0 && /\S/.test(letters[start - 1]) && best - start < 2 * LEAD) start -= 1;
  let end = Math.min(length, start + EXCERPT);
  while (end < length && /\S/.test(letters[end]) && end - start < EXCERPT + LEAD) end += 1;
  return { start, end, length };
}

// Returns the start of the window with the most different words; the window slides over the matches once.
function bestStart(matches) {
  const near = new Map();
  let best = 0, most = 0, last = 0;
  for (const first of matches) {
    for (; last < matches.length && matches[last].end <= first.start + EXCERPT - LEAD; last += 1)
      near.set(matches[last].token, (near.get(matches[last].token) ?? 0) + 1);
    if (near.size > most) [best, most] = [first.start, near.size];
    const left = (near.get(first.token) ?? 0) - 1;
    if (left > 0) near.set(first.token, left); else near.delete(first.token);
  }
  return best;
}

function wholeText(hit, text, colours, fetchText) {
  const short = [...text.childNodes];
  const button = element("button", { type: "button", class: "plain", "aria-expanded": "false" }, "Whole text");
  button.addEventListener("click", async () => {
    const whole = button.getAttribute("aria-expanded") === "false";
    const pieces = whole ? await wholePieces(hit, colours, fetchText) : short;
    if (!pieces) return;
    button.setAttribute("aria-expanded", String(whole));
    button.textContent = whole ? "Excerpt" : "Whole text";
    text.classList.toggle("all", whole);
    text.replaceChildren(...pieces);
  });
  return button;
}

// Returns the whole text, which is fetched if the hit holds only an excerpt; matches are marked in the excerpt.
async function wholePieces(hit, colours, fetchText) {
  const known = marked(hit.text, spans(hit, "text"), colours);
  if (!hit.cut?.text) return known;
  const text = await fetchText(hit.id);
  if (text === null) return null;
  const start = unitsBefore(text, hit.cut.text.start);
  return [text.slice(0, start), ...known, text.slice(start + hit.text.length)];
}

// Returns how many UTF-16 units the first code points of a text take.
function unitsBefore(text, points) {
  let units = 0;
  for (let point = 0; point < points && units < text.length; point += 1)
    units += text.codePointAt(units) > 0xffff ? 2 : 1;
  return units;
}

// --- below the text

function chips(hit, addFilter) {
  const plain = Object.entries(hit.meta).filter(([, value]) => ["string", "number", "boolean"].includes(typeof value));
  return plain.slice(0, 6).map(([field, value]) => {
    const chip = element("button", { type: "button", class: "chip", title: "Show only documents with this value" }, `${field}: ${value}`);
    chip.addEventListener("click", () => addFilter(field, value));
    return chip;
  });
}

function toggle(name, target, attributes) {
  const button = element("button", { type: "button", class: "plain", "aria-expanded": "false", ...attributes }, name);
  button.addEventListener("click", () => {
    target.hidden = !target.hidden;
    button.setAttribute("aria-expanded", String(!target.hidden));
  });
  return button;
}
