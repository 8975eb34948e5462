// Passages: where they are in their document, and their texts with the words of the query marked.
// Positions are in code points, not in JavaScript's UTF-16 units, so texts are arrays of letters here.
import { element, number } from "./elements.js";

const EXCERPT = 340; // characters of a text that are shown
const LEAD = 60; // characters before the first match
const IS_MARK = /\p{M}/u; // a combining mark, which is not shown without its letter
const HEADINGS = " › "; // between the headings of a place
const FAINTEST = 0.35; // strength of the weakest tick of a map, where the best passage has 1

// Returns pieces of a text with its matches marked. Matches that overlap share a mark, which has the colour of the first:
// pairs of letters in scripts without spaces.
export function marked(letters, matches, colours, part = { start: 0, end: Infinity }) {
  const pieces = [];
  let at = part.start;
  for (const match of joined(matches, part)) {
    pieces.push(letters.slice(at, match.start).join(""));
    const mark = element("mark", {}, letters.slice(match.start, match.end).join(""));
    mark.style.setProperty("--colour", colours.get(`word ${match.token}`));
    pieces.push(mark);
    at = match.end;
  }
  pieces.push(letters.slice(at, part.end).join(""));
  return pieces;
}

// Returns the matches within a part of the text, with those that overlap as one. Matches are in order.
function joined(matches, part) {
  const all = [];
  for (const { start, end, token } of matches) {
    if (start < part.start || end > part.end) continue;
    const last = all.at(-1);
    if (last && start < last.end) last.end = Math.max(last.end, end);
    else all.push({ start, end, token });
  }
  return all;
}

// Returns the excerpt that holds the most different words of the query.
export function excerptOf(letters, matches) {
  const length = letters.length, best = bestStart(matches);
  if (length <= EXCERPT * 1.2) return { start: 0, end: length };
  let start = best <= LEAD * 2 ? 0 : best - LEAD;
  while (start > 0 && /\S/.test(letters[start - 1]) && best - start < 2 * LEAD) start -= 1;
  while (start > 0 && IS_MARK.test(letters[start])) start -= 1;
  let end = Math.min(length, start + EXCERPT);
  while (end < length && /\S/.test(letters[end]) && end - start < EXCERPT + LEAD) end += 1;
  while (end < length && IS_MARK.test(letters[end])) end += 1;
  return { start, end };
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

// Returns where the text of a passage begins in its document: a long one is sent in part.
export function textStart(passage) {
  return passage.cut?.start ?? passage.start;
}

export function documentLength(hit) {
  return hit.cut?.text?.length ?? [...hit.text].length;
}

// Returns the name of a place in a document, which has a title, a length and, if its text is known, letters: the headings
// and the page, or the line, or how far into the text it is. A heading that the title begins with is not repeated: the
// title of a file may end with its name.
export function placeName(passage, whole) {
  const headings = passage.heading.split(HEADINGS).filter((heading, level) =>
    level > 0 || (heading !== whole.title && !whole.title.startsWith(`${heading} (`)));
  const named = [headings.join(HEADINGS), passage.page === null ? "" : `page ${passage.page}`].filter(Boolean);
  if (named.length) return named.join(" · ");
  const lines = whole.letters ? whole.letters.slice(0, passage.start).filter((letter) => letter === "\n").length : 0;
  if (lines) return `line ${lines + 1}`;
  return passage.start === 0 ? "beginning" : `${Math.round((100 * passage.start) / whole.length)} % into the text`;
}

// Draws a bar as long as the document, with a tick for each passage that matches; the better, the darker.
// `shown` is the number of the passage that is shown, and `open` takes the number of a tick.
export function drawMap(passages, whole, shown, open) {
  const best = Math.max(...passages.map((passage) => passage.score), 1e-9);
  const inOrder = [...passages].sort((a, b) => a.start - b.start);
  const ticks = inOrder.map((passage) => {
    const name = `${placeName(passage, whole)}, score ${number(passage.score)}`;
    const tick = element("button", { type: "button", class: "tick", title: name, "aria-label": `Open at: ${name}`, "data-passage": passage.number });
    if (passage.number === shown) tick.setAttribute("aria-current", "true");
    tick.style.left = `${(100 * passage.start) / whole.length}%`;
    tick.style.width = `${(100 * (passage.end - passage.start)) / whole.length}%`;
    tick.style.setProperty("--strength", `${100 * Math.max(FAINTEST, (Math.max(0, passage.score) / best) ** 2)}%`);
    tick.addEventListener("click", () => open(passage.number));
    return tick;
  });
  return element("div", { class: "map", role: "group", "aria-label": "Matching passages in the document" }, ...ticks);
}
