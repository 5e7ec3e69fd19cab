/* Inputs that are no images: numbers as text, and small pictures of them. */
import { Problem } from "./asking.js";

const NAMESPACE = "http://www.w3.org/2000/svg";
const HEIGHT = 40;

export const sizeOf = (shape) => shape.reduce((product, size) => product * size, 1);

/** Return how far each of some numbers may change if all do, rounded down to four decimals. */
export const furthestEach = (radius, size) => Math.floor(1e4 * (radius / Math.sqrt(size))) / 1e4;

/**
 * Read numbers as people paste them into nested arrays of a shape.
 *
 * A comma is a separator; where other separators occur too it might be a decimal comma, which is refused.
 */
export function readNumbers(text, shape) {
  const plain = text.replace(/[[\]]/g, " ").trim().replace(/\s*([,;])\s*/g, "$1").replace(/[,;]$/, "");
  if (!plain) throw new Problem("Expected numbers, got nothing.");
  if (plain.includes(",") && /[;\s]/.test(plain)) throw new Problem("Expected one kind of separator, got commas and others. Write decimals with a point.");
  const words = plain.split(/[,;]|\s+/), numbers = words.map(Number);
  const wrong = words.findIndex((word, index) => !word || !Number.isFinite(numbers[index]));
  if (wrong >= 0) throw new Problem(words[wrong] ? `Expected numbers, got “${words[wrong].slice(0, 20)}” in place ${wrong + 1}.` : `Expected numbers, got nothing in place ${wrong + 1}.`);
  const size = sizeOf(shape);
  if (numbers.length !== size) throw new Problem(`Expected ${size} numbers, got ${numbers.length}.`);
  return shape.slice(1).reverse().reduce((parts, length) => Array.from({ length: parts.length / length }, (_, index) => parts.slice(index * length, (index + 1) * length)), numbers);
}

/** Fill a place with a bar for each number, up or down from zero. */
export function drawValues(place, values, title) {
  const svg = document.createElementNS(NAMESPACE, "svg"), bars = document.createElementNS(NAMESPACE, "path");
  const low = Math.min(0, ...values), high = Math.max(0, ...values), y = (value) => (HEIGHT * (high - value)) / (high - low || 1);
  svg.setAttribute("viewBox", `0 0 ${values.length} ${HEIGHT}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", title);
  bars.setAttribute("d", values.map((value, index) => `M${index + 0.1} ${y(0)}V${y(value)}H${index + 0.9}V${y(0)}Z`).join(""));
  svg.append(bars);
  place.replaceChildren(svg);
}
