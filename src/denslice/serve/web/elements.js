// What all parts of the page use: elements made of text nodes, never of markup, and numbers as people read them.

export function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

export function number(value) {
  return value.toFixed(Math.abs(value) < 100 ? 2 : 1);
}
