// The reader: a dialog with a whole document, opened at one of the passages that match.
import { element } from "./elements.js";
import { documentLength, drawMap, marked, placeName, textStart } from "./passages.js";

const at = (id) => document.getElementById(id);
const reader = at("reader");
let opened = null; // the document, its text as letters, and what of it matches

// Opens the document of a hit at the passage with this number. `matching` are the passages that match, and
// `fetchDocument` returns the document with an id, or null.
export async function openDocument(hit, matching, shown, colours, fetchDocument) {
  const doc = await fetchDocument(hit.id);
  if (!doc) return;
  const letters = [...doc.text];
  const isSame = letters.length === documentLength(hit); // else it was replaced after the search
  const passages = isSame ? matching : [];
  const whole = { title: doc.title, length: letters.length, letters };
  opened = { doc, whole, colours, passages, spans: isSame ? spansOf(hit, matching) : [] };
  at("reader-title").replaceChildren(doc.title || doc.id);
  at("reader-steps").hidden = passages.length < 2;
  reader.showModal();
  show(isSame ? shown : 0);
  at("reader-text").focus({ preventScroll: true });
}

// Returns the matches in the whole text that the response has, in order.
function spansOf(hit, matching) {
  const moved = (spans, by) => spans.map((span) => ({ ...span, start: span.start + by, end: span.end + by }));
  const inText = hit.explanation.matches.filter((match) => match.field === "text");
  const all = [...moved(inText, hit.cut?.text?.start ?? 0), ...matching.flatMap((one) => moved(one.matches, textStart(one)))];
  return all.sort((a, b) => a.start - b.start || b.end - a.end);
}

// Shows the passage with this number: it is highlighted, and the text is scrolled to it.
function show(number) {
  const { doc, whole, colours, spans } = opened;
  const place = doc.passages[number], isOnly = doc.passages.length === 1;
  opened.shown = number;
  const pieces = (start, end) => marked(whole.letters, spans, colours, { start, end });
  const passage = element(isOnly ? "div" : "section", isOnly ? {} : { class: "passage", "aria-label": "Passage" },
    ...pieces(place.start, place.end));
  at("reader-text").replaceChildren(...pieces(0, place.start), passage, ...pieces(place.end, whole.length));
  const name = placeName(place, whole);
  at("reader-place").textContent = isOnly ? "" : `${name} · passage ${number + 1} of ${doc.passages.length}`;
  showMap(number);
  const isLong = passage.offsetHeight > at("reader-text").clientHeight;
  (isLong && passage.querySelector("mark") || passage).scrollIntoView({ block: isLong ? "start" : "center" });
}

function showMap(number) {
  const { doc, whole, passages } = opened, map = at("reader-map");
  const hadFocus = map.contains(document.activeElement);
  const isEmpty = doc.passages.length === 1 || !passages.length;
  map.replaceChildren(...(isEmpty ? [] : [drawMap(passages, whole, number, show)]));
  if (hadFocus) map.querySelector("[aria-current]")?.focus();
}

function step(by) {
  const numbers = opened.passages.map((passage) => passage.number).sort((a, b) => a - b);
  show(numbers[(numbers.indexOf(opened.shown) + by + numbers.length) % numbers.length]);
}

at("reader-previous").addEventListener("click", () => step(-1));
at("reader-next").addEventListener("click", () => step(1));
at("reader-close").addEventListener("click", () => reader.close());
reader.addEventListener("click", (event) => { if (event.target === reader) reader.close(); }); // outside of it
