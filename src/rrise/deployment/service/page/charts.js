/* Charts: small line charts as SVG. */

const NARROWEST = 280, HEIGHT = 260, LEFT = 52, RIGHT = 12, TOP = 26, BOTTOM = 40;
const NAMESPACE = "http://www.w3.org/2000/svg";

function node(parent, name, attributes, text) {
  const made = parent.appendChild(document.createElementNS(NAMESPACE, name));
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function ticks(top) {
  const rough = top / 4, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((each) => each >= rough);
  return [...Array(Math.floor(top / step + 1e-9) + 1).keys()].map((index) => index * step);
}

const written = (value) => value.toLocaleString("en", { maximumSignificantDigits: 4 });

/**
 * Fill a place with a chart as wide as it is: lines `[{points: [[x, y], …], kind}]` and level `limits` `[{y, words, kind}]` from 0 to `right` and `top`.
 */
export function lineChart(place, { title, lines, limits = [], right, top, across, up }) {
  const svg = document.createElementNS(NAMESPACE, "svg");
  const style = getComputedStyle(place), padding = parseFloat(style.paddingLeft) + parseFloat(style.paddingRight);
  const width = Math.max(NARROWEST, place.clientWidth - padding);
  svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", title);
  const x = (value) => LEFT + (value / right) * (width - LEFT - RIGHT);
  const y = (value) => HEIGHT - BOTTOM - (Math.min(value, top) / top) * (HEIGHT - TOP - BOTTOM);
  for (const value of ticks(top)) {
    node(svg, "line", { class: "axis", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) });
    node(svg, "text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, written(value));
  }
  for (const value of ticks(right)) {
    const anchor = x(value) > width - 30 ? "end" : "middle";
    node(svg, "text", { x: x(value), y: HEIGHT - BOTTOM + 17, "text-anchor": anchor }, written(value));
  }
  node(svg, "text", { x: (LEFT + width) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, across);
  node(svg, "text", { x: 4, y: 14 }, up);
  for (const { y: level, words, kind } of limits) {
    if (level > top) continue;
    node(svg, "line", { class: `limit ${kind}`, x1: LEFT, x2: width - RIGHT, y1: y(level), y2: y(level) });
    node(svg, "text", { class: kind, x: width - RIGHT, y: y(level) - 5, "text-anchor": "end" }, words);
  }
  for (const { points, kind } of lines)
    node(svg, "polyline", { class: `line ${kind}`, points: points.map(([a, b]) => `${x(a)},${y(b)}`).join(" ") });
  place.replaceChildren(svg);
}
