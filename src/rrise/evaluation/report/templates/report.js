"use strict";
const all = (selector, root = document) => [...root.querySelectorAll(selector)];

/* Values of a figure: under the pointer, or one after the other with the arrow keys. */
for (const figure of all("figure")) {
  const plot = figure.querySelector(".plot"), svg = plot.querySelector("svg"), tip = figure.querySelector(".tip");
  const own = svg.querySelector(":scope > title");
  if (own) { svg.setAttribute("aria-label", own.textContent); own.remove(); }
  const marks = all(".mark", svg).map((circle) => {
    const title = circle.querySelector("title"), words = title.textContent;
    title.remove();
    return { x: circle.cx.baseVal.value, y: circle.cy.baseVal.value, words };
  });
  if (!marks.length) continue;
  const ring = svg.appendChild(document.createElementNS(svg.namespaceURI, "circle"));
  ring.setAttribute("class", "ring");
  ring.setAttribute("r", 7);
  let current = -1;
  const hide = () => { tip.hidden = true; ring.style.display = "none"; };
  const show = (index) => {
    current = index;
    const mark = marks[index], box = figure.getBoundingClientRect();
    ring.setAttribute("cx", mark.x);
    ring.setAttribute("cy", mark.y);
    ring.style.display = "";
    tip.textContent = marks.filter((other) => Math.hypot(other.x - mark.x, other.y - mark.y) < 3).map((other) => other.words).join("\n");
    tip.hidden = false;
    const at = new DOMPoint(mark.x, mark.y).matrixTransform(svg.getScreenCTM());
    const left = Math.min(Math.max(0, at.x - box.left - tip.offsetWidth / 2), box.width - tip.offsetWidth);
    const above = at.y - box.top - tip.offsetHeight - 12;
    tip.style.left = `${left}px`;
    tip.style.top = `${above < 0 ? at.y - box.top + 14 : above}px`;
  };
  hide();
  const under = (event) => {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    let nearest = -1, distance = 26;
    marks.forEach((mark, index) => {
      const away = Math.hypot(mark.x - at.x, mark.y - at.y);
      if (away < distance) { nearest = index; distance = away; }
    });
    if (nearest < 0) hide(); else show(nearest);
  };
  svg.addEventListener("pointermove", under);
  svg.addEventListener("pointerdown", under);
  svg.addEventListener("pointerleave", hide);
  plot.tabIndex = 0;
  plot.setAttribute("role", "group");
  plot.setAttribute("aria-label", `${plot.dataset.title}: the arrow keys show its values`);
  plot.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") hide();
    if (!step) return;
    event.preventDefault();
    show((Math.max(current, step < 0 ? 0 : -1) + step + marks.length) % marks.length);
  });
  plot.addEventListener("blur", hide);
}

/* One filter for all tables: a row stays where it, or the title of its table, has every word. */
const search = document.querySelector("#filter-tables");
if (search) {
  const found = document.querySelector("#found");
  const tables = all("details.table").map((part) => ({
    part, open: part.open, title: part.querySelector("summary").textContent.toLowerCase(),
    rows: all("tbody tr", part).map((row) => ({ row, text: row.textContent.toLowerCase() })),
  }));
  search.closest(".filter").hidden = false;
  search.addEventListener("input", () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let rows = 0, hits = 0;
    for (const table of tables) {
      let left = 0;
      for (const { row, text } of table.rows) {
        row.hidden = !words.every((word) => text.includes(word) || table.title.includes(word));
        left += !row.hidden;
      }
      table.part.hidden = !left;
      table.part.open = words.length ? left > 0 : table.open;
      rows += left;
      hits += left > 0;
    }
    found.textContent = words.length ? `${rows} rows in ${hits} tables` : "";
  });
}

/* A heading sorts the rows of its table; numbers by their value, what is not a number last. */
const value = (row, column) => {
  const text = row.cells[column].textContent.trim();
  const number = Number.parseFloat(text.replace(/[,\s]/g, "").replace("−", "-"));
  return /^[−\-+]?[\d,.]+/.test(text) && !Number.isNaN(number) ? number : text;
};
const compare = (a, b) => {
  if (typeof a === typeof b) return typeof a === "number" ? a - b : a.localeCompare(b);
  return typeof a === "number" ? -1 : 1;
};
for (const table of all("table.sortable")) {
  const heads = all("thead th", table);
  heads.forEach((head, column) => {
    if (!head.textContent.trim()) return;
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      for (const body of table.tBodies) {
        const rows = [...body.rows].sort((a, b) => compare(value(a, column), value(b, column)));
        body.append(...(down ? rows.reverse() : rows));
      }
    });
  });
}

/* Images: all of them, or those of one kind. */
const choices = document.querySelector(".choices");
if (choices) {
  choices.hidden = false;
  const buttons = all("button", choices);
  for (const button of buttons) {
    button.addEventListener("click", () => {
      buttons.forEach((other) => other.setAttribute("aria-pressed", other === button));
      const kind = button.dataset.kind;
      for (const item of all(".grid li")) item.hidden = kind !== "all" && item.dataset.kind !== kind;
    });
  }
}
