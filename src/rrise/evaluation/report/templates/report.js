"use strict";
const all = (selector, root = document) => [...root.querySelectorAll(selector)];

/* Of several values at one radius, say the radius once. */
const told = (lines) => {
  const parts = lines.map((line) => /^(.*), (radius [\d.]+): (.*)$/.exec(line));
  if (lines.length < 2 || parts.some((part) => part?.[2] !== parts[0]?.[2])) return lines;
  return [parts[0][2], ...parts.map(([, name, , value]) => `${value}\u2002${name}`)];
};

/* Values of a figure: under the pointer, or one after the other with the arrow keys; those of curves together. */
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
  const together = "together" in plot.dataset;
  const guide = svg.appendChild(document.createElementNS(svg.namespaceURI, "line"));
  guide.setAttribute("class", "guide");
  guide.setAttribute("y1", Math.min(...marks.map(({ y }) => y)));
  guide.setAttribute("y2", Math.max(...marks.map(({ y }) => y)));
  const ring = svg.appendChild(document.createElementNS(svg.namespaceURI, "circle"));
  ring.setAttribute("class", "ring");
  ring.setAttribute("r", 7);
  let current = -1;
  const hide = () => { tip.hidden = true; ring.style.display = guide.style.display = "none"; };
  const beside = (mark) => (other) => (together ? Math.abs(other.x - mark.x) < 0.5 : Math.hypot(other.x - mark.x, other.y - mark.y) < 3);
  const show = (index) => {
    current = index;
    const mark = marks[index], box = figure.getBoundingClientRect();
    ring.setAttribute("cx", mark.x);
    ring.setAttribute("cy", mark.y);
    ring.style.display = "";
    guide.setAttribute("x1", mark.x);
    guide.setAttribute("x2", mark.x);
    guide.style.display = together ? "" : "none";
    tip.textContent = told(marks.filter(beside(mark)).map((other) => other.words)).join("\n");
    tip.hidden = false;
    const at = new DOMPoint(mark.x, mark.y).matrixTransform(svg.getScreenCTM());
    const x = at.x - box.left, y = at.y - box.top, width = tip.offsetWidth, roomy = together && box.width > 2 * width + 40;
    const left = roomy ? (x + width + 18 > box.width ? x - width - 14 : x + 14) : Math.min(Math.max(0, x - width / 2), box.width - width);
    const above = y - tip.offsetHeight - (roomy ? -14 : 12);
    tip.style.left = `${left}px`;
    tip.style.top = `${above < 0 ? y + 14 : above}px`;
  };
  hide();
  const under = (event) => {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    let nearest = -1, distance = 26;
    marks.forEach((mark, index) => {
      const away = Math.hypot(mark.x - at.x, together ? 0.1 * (mark.y - at.y) : mark.y - at.y);
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

/* A heading sorts the rows of its table, up, down, and as they were; numbers by their value, what is not a number last. */
const value = (row, column) => {
  const text = row.cells[column].textContent.trim();
  return /^[−\-+]?\d/.test(text) ? Number.parseFloat(text.replace(/[,\s]/g, "").replace("−", "-")) : text;
};
const compare = (a, b, sign) => {
  if (typeof a === typeof b) return sign * (typeof a === "number" ? a - b : a.localeCompare(b));
  return typeof a === "number" ? -1 : 1;
};
const NEXT = { ascending: "descending", descending: null };
for (const table of all("table.sortable")) {
  const heads = all("thead th", table);
  const before = [...table.tBodies].map((body) => [body, [...body.rows]]);
  heads.forEach((head, column) => {
    if (!head.textContent.trim()) return;
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const now = head.getAttribute("aria-sort"), order = now ? NEXT[now] : "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      if (order) head.setAttribute("aria-sort", order);
      const sign = order === "descending" ? -1 : 1;
      for (const [body, rows] of before)
        body.append(...(order ? [...rows].sort((a, b) => compare(value(a, column), value(b, column), sign)) : rows));
    });
  });
}

/* What is wider than the window says how much of it is out of sight. */
for (const part of all(".scroll, .plot")) {
  const hint = document.createElement("p"), heads = all("thead th", part);
  hint.className = "hint";
  hint.hidden = true;
  hint.setAttribute("aria-hidden", "true");
  part.before(hint);
  const tell = () => {
    const edge = part.getBoundingClientRect().right;
    const hidden = heads.filter((head) => head.getBoundingClientRect().right > edge + 8).length;
    const left = part.scrollWidth - part.clientWidth - part.scrollLeft > 8;
    const columns = hidden === 1 ? "1 more column" : `${hidden} more columns`;
    hint.textContent = left ? `${hidden ? columns : "more"}: swipe or scroll →` : "← swipe or scroll back";
    hint.hidden = part.scrollWidth <= part.clientWidth + 8;
  };
  part.addEventListener("scroll", tell, { passive: true });
  new ResizeObserver(tell).observe(part);
}

/* The contents mark the section that is in sight. */
const links = new Map(all("nav a").map((link) => [link.hash.slice(1), link]));
const seen = new IntersectionObserver((changes) => {
  for (const { isIntersecting, target } of changes) {
    if (!isIntersecting) continue;
    links.forEach((link) => link.removeAttribute("aria-current"));
    const link = links.get(target.getAttribute("aria-labelledby"));
    if (!link) continue;
    link.setAttribute("aria-current", "true");
    const nav = link.closest("nav"), { left, right } = link.getBoundingClientRect();
    if (left < 0 || right > nav.clientWidth) nav.scrollLeft += left - 24;
  }
}, { rootMargin: "-20% 0px -75%" });
all("main > section").forEach((section) => seen.observe(section));

/* On paper everything is open. */
addEventListener("beforeprint", () => all("details").forEach((part) => { part.open = true; }));

/* Images: all of them, or those of one kind. */
const choices = document.querySelector(".choices");
if (choices) {
  choices.hidden = false;
  const buttons = all("button", choices);
  for (const button of buttons) {
    button.addEventListener("click", () => {
      buttons.forEach((other) => other.setAttribute("aria-pressed", other === button));
      const kind = button.dataset.kind;
      for (const item of all("li[data-kind]")) item.hidden = kind !== "all" && item.dataset.kind !== kind;
      const more = document.querySelector("#more-images");
      if (more && kind !== "all") more.open = true;
    });
  }
}
