// Small things that every part of the face needs.

/** Make an element: h("p", {class: "x", onclick: f}, "text", child, ...). */
export function h(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== "" && child != null));
  return node;
}

export const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

export const write = (node, text) => { if (node.textContent !== text) node.textContent = text; };

/** Where a key leads from [row, column], or nothing. */
export function move(event, [r, c], rows, columns) {
  if (event.altKey || event.metaKey) return undefined;
  const end = event.ctrlKey;
  const to = {
    ArrowUp: [r - 1, c], ArrowDown: [r + 1, c], ArrowLeft: [r, c - 1], ArrowRight: [r, c + 1],
    Home: [end ? 0 : r, 0], End: [end ? rows - 1 : r, columns - 1],
    PageUp: [r - 8, c], PageDown: [r + 8, c],
  }[event.key];
  return to && [Math.min(Math.max(to[0], 0), rows - 1), Math.min(Math.max(to[1], 0), columns - 1)];
}

/** Scroll a linked cell into its own box, never the page. */
export function reveal(td) {
  const box = td.closest(".scroll"), b = box.getBoundingClientRect(), t = td.getBoundingClientRect();
  const head = box.querySelector("thead")?.getBoundingClientRect().height ?? 0;
  if (t.top < b.top + head) box.scrollTop -= b.top + head - t.top;
  else if (t.bottom > b.bottom) box.scrollTop += t.bottom - b.bottom;
  if (t.left < b.left) box.scrollLeft -= b.left - t.left + 48;
  else if (t.right > b.right) box.scrollLeft += t.right - b.right;
}
