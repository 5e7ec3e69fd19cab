/* The page: takes an input, and shows its certificate and what it means. */
import { Problem, ask, count, down, element, find, sentence, state } from "./asking.js";
import { watchMonitor } from "./monitor.js";
import { copiesOf, draw, valuesOf } from "./pictures.js";
import { promiseFacts, showPromise } from "./promise.js";
import { drawValues, furthestEach, readNumbers, sizeOf } from "./vectors.js";
import { stopVerification, verify } from "./verify.js";

const TYPES = { png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", npy: "application/x-npy", json: "application/json" };
const SHOWN_CLASSES = 5;

function showProblem(error) {
  if (!(error instanceof Problem)) console.error(error);
  find("problem").textContent = error instanceof Problem ? sentence(error.message) : "Something went wrong on this page.";
  find("problem").hidden = false;
}

/* The certifier ----------------------------------------------------------------------------------- */

async function start() {
  try {
    state.card = await (await ask("v1/certifier")).json();
  } catch (error) {
    showProblem(error);
    return;
  }
  find("problem").hidden = true;
  const { card } = state;
  showProject(card);
  showWords(card);
  showPromise(card.guarantee);
  showSamples(card.samples);
  if (card.monitor) watchMonitor();
}

function showProject({ project, version }) {
  find("version").textContent = version;
  if (project) find("project").href = project;
}

/* What kind of inputs there are: images in pixels, tables in numbers. */
const sizeWords = ({ shape, image }) => {
  if (image) return `${shape[2]} × ${shape[1]} pixels, ${shape[0] === 1 ? "grey" : "colour"}`;
  return shape.length === 1 ? `${count(shape[0])} ${shape[0] === 1 ? "number" : "numbers"}` : `array of shape ${shape.join(" × ")}`;
};

function showWords(card) {
  const { shape, range, image } = card.input, size = sizeWords(card.input);
  const facts = { classes: count(card.class_names.length), input: size, "noise σ": card.sigma, ...promiseFacts(card.guarantee), runs: card.runtime };
  find("facts").replaceChildren(...Object.entries(facts).map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, String(value)))));
  find("file").accept = image ? ".png,.jpg,.jpeg,.npy" : ".npy,.json";
  const within = range ? `, each from ${range[0]} to ${range[1]}` : "";
  find("file-help").textContent = image
    ? `A PNG or JPEG of exactly ${size} (images are not resized: that would certify another image), or a .npy array.`
    : `A .npy or .json file with one input: ${size}${within}.`;
  find("units").textContent = image
    ? "A shift by one pixel can be a large distance."
    : "All numbers count alike, in the units that the classifier takes. Numbers that were scaled before training must be scaled the same way here.";
  find("paste").hidden = image;
  find("paste-help").textContent = `${sentence(size).slice(0, -1)}${within}. Separate them by commas, spaces, tabs or lines; write decimals with a point.`;
  const type = image ? "image/png" : "application/json";
  const token = state.token ? " -H 'Authorization: Bearer TOKEN'" : "";
  find("curl").textContent = `curl --data-binary @input.${image ? "png" : "json"} -H 'Content-Type: ${type}'${token} ${location.origin}/v1/certify`;
}

async function showSamples(names) {
  const made = await Promise.all(names.map(async (name) => {
    const blob = await (await ask(`v1/samples/${encodeURIComponent(name)}`)).blob();
    const button = element("button", { type: "button", "aria-pressed": "false" });
    if (blob.type.startsWith("image/")) {
      const image = button.appendChild(element("img", { alt: `sample ${name}` }));
      image.src = URL.createObjectURL(blob);
    } else {
      const values = await numbersIn(blob);
      drawValues(button.appendChild(element("span", { class: "values" })), values, `sample ${name}`);
      button.append(element("span", { "aria-hidden": "true" }, name));
      button.addEventListener("click", () => { find("numbers").value = values.join(", "); });
    }
    button.addEventListener("click", () => choose(blob, blob.type, button));
    return element("li", {}, button);
  }));
  find("samples").replaceChildren(...made);
  find("samples").classList.toggle("tables", !state.card.input.image);
  find("samples-part").hidden = made.length === 0;
}

const numbersIn = async (blob) => JSON.parse(await blob.text()).flat(Infinity);

/** Return the values of an input where the page can show them, or null. */
async function shownValues(blob, type) {
  if (type.startsWith("image/")) return valuesOf(blob, state.card.input.shape);
  return type === TYPES.json && !state.card.input.image ? numbersIn(blob) : null;
}

/* An input and its certificate -------------------------------------------------------------------- */

async function choose(blob, type, button = null) {
  stopVerification();
  const asked = ++state.asked;
  for (const each of find("samples").querySelectorAll("button")) each.setAttribute("aria-pressed", each === button);
  find("problem").hidden = true;
  try {
    const answer = await ask("v1/certify?probabilities=true&trial=true", { method: "POST", body: blob, headers: { "Content-Type": type } });
    const { certificates, warning } = await answer.json();
    const values = await shownValues(blob, type);
    if (asked !== state.asked) return;
    if (certificates.length > 1) throw new Problem(`This page shows one input at a time, but the file holds ${certificates.length}.`);
    state.input = { blob, type, values };
    state.certificate = certificates[0];
    showAnswer(warning);
  } catch (error) {
    if (asked !== state.asked) return;
    find("answer").hidden = find("check").hidden = true;
    showProblem(error);
  }
}

function showAnswer(warning) {
  const { certificate, card } = state, { values } = state.input, { shape, image } = card.input;
  find("answer").hidden = false;
  find("own").hidden = values === null || !image;
  find("own-values").hidden = values === null || image;
  if (values && image) draw(find("own"), values, shape);
  if (values && !image) drawValues(find("own-values"), values, `your input: ${sizeWords(card.input)} from ${Math.min(...values)} to ${Math.max(...values)}`);
  const verdict = find("verdict");
  verdict.className = `verdict ${certificate.issued ? "certified" : "abstained"}`;
  find("card").className = `answer ${certificate.issued ? "certified" : "abstained"}`;
  verdict.textContent = certificate.issued ? `Certified: ${certificate.class_name}` : `Abstained; the guess is ${certificate.class_name}`;
  find("meaning").textContent = meaning(certificate, shape);
  find("warning").hidden = !warning;
  find("warning").textContent = warning ?? "";
  const tiles = [
    [down(certificate.radius), "certified radius (L2), rounded down"],
    [down(certificate.lower_bound), "lower bound on the probability of the answer"],
    certificate.guarantee === card.guarantee.id ? ["1", "forward pass"] : ["votes", "of the base classifier, because of the alarm"],
  ];
  find("tiles").replaceChildren(...tiles.map(([number, words]) => element("li", {}, element("b", {}, number), element("span", {}, words))));
  showCopies();
  showBars();
  find("check").hidden = card.verification === null;
  find("verify-figure").hidden = true;
  find("verify-result").textContent = "";
  if (card.monitor) watchMonitor();
  if (find("answer").getBoundingClientRect().top > innerHeight - 200) find("answer-title").scrollIntoView();
}

function meaning({ issued, class_name, radius, lower_bound }, shape) {
  if (!issued)
    return `No radius is promised here. A radius needs a bound above one half on the probability of the answer under noise${lower_bound > 0 ? `, and the bound is ${down(lower_bound)}` : ""}. Abstaining is not an error: an honest certifier abstains when it cannot be sure.`;
  return `The smoothed classifier answers ${class_name} for this input and for every input within an L2 distance of ${down(radius)} of it, whatever the change is. ${spreadWords(radius, shape)}`;
}

function spreadWords(radius, shape) {
  const size = sizeOf(shape), each = furthestEach(radius, size);
  if (state.card.input.image) return `This is as far as changing every value of the image by ${(Math.floor(2550 * each) / 10).toFixed(1)} of 255 levels.`;
  return size === 1 ? "" : `For example, any one number may change by ${down(radius)}, or all ${count(size)} by ${each.toFixed(4)} each.`;
}

function showCopies() {
  const { certificate, card } = state, { values } = state.input;
  find("copies-part").hidden = values === null || !card.input.image || !certificate.issued;
  if (find("copies-part").hidden) return;
  find("copies-words").textContent = `Copies moved by exactly ${down(certificate.radius)}. The answer is certified to be ${certificate.class_name} for all of them, and for everything nearer. (Your browser draws them with 256 levels.)`;
  const items = [{ name: "the input", values, distance: 0, held: 0 }, ...copiesOf(values, card.input.shape, certificate.radius)];
  find("copies").replaceChildren(...items.map((copy) => {
    const canvas = element("canvas", { role: "img", "aria-label": copy.name });
    draw(canvas, copy.values, card.input.shape);
    return element("li", {}, canvas, element("b", {}, copy.name), aboutCopy(copy, certificate.radius));
  }));
}

function aboutCopy({ distance, held }, radius) {
  if (distance === 0) return "as you gave it";
  if (radius - distance > 1e-6) return `distance ${down(distance)}: it cannot go further this way`;
  const clipped = held ? `; clipped: ${count(held)} ${held === 1 ? "value stays" : "values stay"} at black or white, the others moved further` : "";
  return `distance ${down(distance)}${clipped}`;
}

function showBars() {
  const { probabilities } = state.certificate, names = state.card.class_names;
  const order = [...probabilities.keys()].sort((a, b) => probabilities[b] - probabilities[a]);
  const rows = order.slice(0, SHOWN_CLASSES).map((index) => [names[index], probabilities[index]]);
  const rest = order.slice(SHOWN_CLASSES).reduce((sum, index) => sum + probabilities[index], 0);
  if (order.length > SHOWN_CLASSES) rows.push([`${count(order.length - SHOWN_CLASSES)} others`, rest]);
  find("bars").replaceChildren(...rows.map(([name, value], index) => {
    const bar = element("div", { class: "bar" });
    bar.style.width = `${100 * value}%`;
    return element("tr", index ? {} : { class: "top" }, element("th", { scope: "row", title: name }, name), element("td", {}, bar), element("td", {}, `${(100 * value).toFixed(1)} %`));
  }));
}

/* What one can do --------------------------------------------------------------------------------- */

function chooseFile(file) {
  if (!file) return;
  const kind = TYPES[file.name.split(".").pop().toLowerCase()];
  if (kind) choose(file, kind);
  else showProblem(new Problem(`Expected a file of kind ${find("file").accept}; got ${file.name}.`));
}

find("file").addEventListener("change", () => chooseFile(find("file").files[0]));
const drop = find("drop");
for (const name of ["dragenter", "dragover"]) drop.addEventListener(name, (event) => { event.preventDefault(); drop.classList.add("over"); });
for (const name of ["dragleave", "drop"]) drop.addEventListener(name, () => drop.classList.remove("over"));
drop.addEventListener("drop", (event) => { event.preventDefault(); chooseFile(event.dataTransfer.files[0]); });
find("paste").addEventListener("submit", (event) => {
  event.preventDefault();
  try {
    choose(new Blob([JSON.stringify(readNumbers(find("numbers").value, state.card.input.shape))], { type: TYPES.json }), TYPES.json);
  } catch (error) {
    find("answer").hidden = find("check").hidden = true;
    showProblem(error);
  }
});
find("verify").addEventListener("click", verify);
find("stop").addEventListener("click", stopVerification);
find("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  state.token = find("token").value.trim();
  find("token-form").hidden = true;
  start();
});
start();
