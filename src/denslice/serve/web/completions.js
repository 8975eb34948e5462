// Completion of the search box: a list of ways in which the text may go on. Enter always searches what the box shows.
import { element } from "./elements.js";
import { send } from "./requests.js";

const PAUSE = 80; // ms between the last key and the request
const MOST = 8;

const query = document.getElementById("query"), list = document.getElementById("completions");
let timer = 0, running = null, typed = "", active = -1;

// Closes the list and forgets requests under way, so that no late answer opens it.
export function closeCompletions() {
  clearTimeout(timer);
  running?.abort();
  running = null;
  list.hidden = true;
  list.replaceChildren();
  query.setAttribute("aria-expanded", "false");
  activate(-1);
}

function completeSoon() {
  closeCompletions();
  const isAtEnd = query.selectionStart === query.value.length;
  if (query.value.trim() && isAtEnd) timer = setTimeout(complete, PAUSE);
}

// Completions are an aid: if the server does not answer, there are none.
async function complete() {
  const mine = (running = new AbortController());
  typed = query.value;
  try {
    const response = await send(`suggest?${new URLSearchParams({ text: typed, k: MOST })}`, { signal: mine.signal });
    const { suggestions } = response.ok ? await response.json() : { suggestions: [] };
    if (running === mine && document.activeElement === query) show(suggestions);
  } catch (error) {
    if (error.name !== "AbortError") closeCompletions();
  }
}

function show(suggestions) {
  list.replaceChildren(...suggestions.map((text, number) => {
    const option = element("li", { id: `completion-${number}`, role: "option", "aria-selected": "false", dir: "auto" }, text);
    option.addEventListener("mousedown", (event) => event.preventDefault()); // the box keeps the focus
    option.addEventListener("click", () => { query.value = text; closeCompletions(); });
    return option;
  }));
  list.hidden = suggestions.length === 0;
  query.setAttribute("aria-expanded", String(!list.hidden));
}

function activate(number) {
  active = number;
  for (const [at, option] of [...list.children].entries()) option.setAttribute("aria-selected", String(at === number));
  if (number < 0) return query.removeAttribute("aria-activedescendant");
  query.setAttribute("aria-activedescendant", list.children[number].id);
  list.children[number].scrollIntoView({ block: "nearest" });
}

// Moves from option to option and shows each in the box; past the ends is what was typed.
function step(by) {
  const places = list.children.length + 1;
  activate(((active + 1 + by + places) % places) - 1);
  query.value = active < 0 ? typed : list.children[active].textContent;
}

query.addEventListener("input", (event) => { if (!event.isComposing) completeSoon(); });
query.addEventListener("compositionend", completeSoon);
query.addEventListener("blur", closeCompletions);
query.addEventListener("keydown", (event) => {
  if (list.hidden || event.isComposing) return;
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!by && event.key !== "Escape") return;
  event.preventDefault();
  event.stopPropagation(); // Escape closes the list before it clears the box
  if (by) return step(by);
  query.value = typed;
  closeCompletions();
});
