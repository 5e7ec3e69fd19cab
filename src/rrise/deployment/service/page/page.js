/* The page: takes an input, and shows its certificate and what it means. */
import { lineChart } from "./charts.js";
import { copiesOf, draw, valuesOf } from "./pictures.js";

const find = (name) => document.getElementById(name);
const state = { card: null, token: "", input: null, certificate: null, verification: null, asked: 0 };
const TYPES = { png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", npy: "application/x-npy", json: "application/json" };
const SHOWN_CLASSES = 5;

/** Write a radius or bound with four decimals, rounded down. */
const down = (value) => (Math.floor(value * 1e4 + 1e-7) / 1e4).toFixed(4);
const count = (value) => value.toLocaleString("en");

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/* Requests ---------------------------------------------------------------------------------------- */

class Problem extends Error {}

async function ask(path, options = {}) {
  const headers = { ...options.headers, ...(state.token ? { Authorization: `Bearer ${state.token}` } : {}) };
  let answer;
  try {
    answer = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("The service cannot be reached. Is it still running?");
  }
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => ({}));
  find("token-form").hidden = answer.status !== 401;
  if (answer.status === 401) find("token").focus();
  throw new Problem(said.error ?? `The service answered ${answer.status}.`);
}

function showProblem(error) {
  if (!(error instanceof Problem)) console.error(error);
  find("problem").textContent = error instanceof Problem ? sentence(error.message) : "Something went wrong on this page.";
  find("problem").hidden = false;
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.?!]$/.test(text) ? "" : ".");

/* The certifier ----------------------------------------------------------------------------------- */

async function start() {
  try {
    state.card = await (await ask("v1/certifier")).json();
  } catch (error) {
    showProblem(error);
    return;
  }
  find("problem").hidden = true;
  const { card } = state, { shape, range, image } = card.input;
  const size = image ? `${shape[2]} × ${shape[1]} pixels, ${shape[0] === 1 ? "grey" : "colour"}` : shape.join(" × ");
  const threat = threatOf(card.guarantee);
  const attack = threat ? { "attack radius": threat.radius, "query noise": threat.query_noise } : {};
  const facts = { classes: count(card.class_names.length), input: size, "noise σ": card.sigma, "allowed failures": card.guarantee.failure, ...attack, runs: card.runtime };
  find("facts").replaceChildren(...Object.entries(facts).map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, String(value)))));
  find("file").accept = image ? ".png,.jpg,.jpeg,.npy" : ".npy,.json";
  find("file-help").textContent = image
    ? `A PNG or JPEG of exactly ${size} (images are not resized: that would certify another image), or a .npy array.`
    : `A .npy or .json file with an array of shape ${size}, values ${range ? `from ${range[0]} to ${range[1]}` : "of any size"}.`;
  showPromise(card.guarantee);
  showSamples(card.samples);
  if (card.monitor) showMonitor();
}

/* What may happen to inputs before they are certified; null if nothing is promised about that. */
const threatOf = (guarantee) => guarantee.facts.calibration?.threat ?? null;

function showPromise(guarantee) {
  const in100 = (failure) => Number((100 * Number(failure)).toPrecision(12)).toLocaleString("en", { maximumFractionDigits: 4, roundingMode: "ceil" });
  const { kind, calibration } = guarantee.facts, threat = threatOf(guarantee);
  const sure = calibration?.confidence ? `With confidence ${calibration.confidence} over the calibration inputs, at` : "On average, at";
  const among = kind === "issued" ? "radii issued for inputs" : "inputs";
  const wrong = kind === "issued" ? "are wrong" : "get a wrong radius";
  const natural = threat ? calibration.natural_failure : guarantee.failure;
  find("covered").textContent = `${sure} most ${in100(natural)} in 100 ${among} drawn like the calibration inputs ${wrong}.`;
  find("moved").hidden = !threat?.radius;
  if (threat?.radius) {
    const tries = threat.tries === 1 ? "" : ` This holds for the best of ${count(threat.tries)} tries.`;
    find("moved-words").textContent = `If somebody moves such inputs by up to ${threat.radius} before you certify them, at most ${in100(guarantee.failure)} in 100 get a wrong radius.${tries} The surrogate sees each input with new, secret noise, so the same input may get another answer next time.`;
    find("chosen").textContent = "Not: inputs that someone moved further, or chose freely.";
  }
  const list = (title, sentences) => [element("p", {}, title), element("ul", {}, ...sentences.map((text) => element("li", {}, text)))];
  find("guarantee").replaceChildren(
    element("p", {}, guarantee.promise),
    ...list("Assumed:", guarantee.assumptions),
    ...list("Not promised:", guarantee.not_promised),
    element("p", { class: "soft" }, `Guarantee ${guarantee.id}.`),
  );
}

async function showSamples(names) {
  const made = await Promise.all(names.map(async (name) => {
    const blob = await (await ask(`v1/samples/${encodeURIComponent(name)}`)).blob();
    const image = element("img", { alt: `sample ${name}` });
    image.src = URL.createObjectURL(blob);
    const button = element("button", { type: "button", "aria-pressed": "false" }, image);
    button.addEventListener("click", () => choose(blob, blob.type, button));
    return element("li", {}, button);
  }));
  find("samples").replaceChildren(...made);
  find("samples-part").hidden = made.length === 0;
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
    const values = type.startsWith("image/") ? await valuesOf(blob, state.card.input.shape) : null;
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
  const { certificate, card } = state, { values } = state.input, { shape } = card.input;
  find("answer").hidden = false;
  find("own").hidden = values === null;
  if (values) draw(find("own"), values, shape);
  const verdict = find("verdict");
  verdict.className = `verdict ${certificate.issued ? "certified" : "abstained"}`;
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
  if (card.monitor) showMonitor();
  if (find("answer").getBoundingClientRect().top > innerHeight - 200) find("answer-title").scrollIntoView();
}

function meaning({ issued, class_name, radius, lower_bound }, shape) {
  if (!issued)
    return `No radius is promised here. A radius needs a bound above one half on the probability of the answer under noise${lower_bound > 0 ? `, and the bound is ${down(lower_bound)}` : ""}. Abstaining is not an error: an honest certifier abstains when it cannot be sure.`;
  const values = shape.reduce((product, size) => product * size, 1);
  const each = (255 * radius) / Math.sqrt(values);
  const spread = state.card.input.image ? ` This is as far as changing every value of the image by ${(Math.floor(10 * each) / 10).toFixed(1)} of 255 levels.` : "";
  return `The smoothed classifier answers ${class_name} for this input and for every input within an L2 distance of ${down(radius)} of it, whatever the change is.${spread}`;
}

function showCopies() {
  const { certificate, card } = state, { values } = state.input;
  find("copies-part").hidden = values === null || !certificate.issued;
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

/* Monte Carlo ------------------------------------------------------------------------------------- */

/** Yield name and data of server-sent events. */
async function* events(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const [, name, data] = /^event: (.*)\ndata: (.*)$/.exec(block);
      yield [name, JSON.parse(data)];
    }
  }
}

async function verify() {
  const { input, certificate } = state, control = new AbortController();
  const looks = [];
  state.verification = control;
  find("verify").disabled = true;
  find("stop").hidden = false;
  find("verify-result").textContent = "The base classifier votes…";
  try {
    const answer = await ask("v1/verify", { method: "POST", body: input.blob, headers: { "Content-Type": input.type }, signal: control.signal });
    let budget = 0;
    for await (const [name, data] of events(answer)) {
      if (name === "start") budget = data.budget;
      else if (name === "look") showLook(looks, data, budget, certificate);
      else if (name === "error") throw new Problem(data.error);
    }
    find("verify-result").textContent = compared(looks.at(-1), certificate);
  } catch (error) {
    const stopped = error.name === "AbortError";
    if (!stopped && !(error instanceof Problem)) console.error(error);
    if (state.certificate === certificate)
      find("verify-result").textContent = stopped ? (looks.length ? `Stopped. ${compared(looks.at(-1), certificate)}` : "Stopped.") : sentence(error.message);
  } finally {
    if (state.verification === control) state.verification = null;
    find("verify").disabled = false;
    find("stop").hidden = true;
  }
}

function stopVerification() {
  state.verification?.abort();
}

function showLook(looks, look, budget, certificate) {
  looks.push(look);
  find("verify-figure").hidden = false;
  const share = `${count(look.agreeing)} of ${count(look.counted)} votes for ${look.class_name}`;
  find("verify-now").textContent = `${count(look.votes)} of ${count(budget)} noisy copies classified: ${share}. Certified so far: ${look.issued ? `radius ${down(look.radius)}` : "nothing"} (probability at least ${down(look.lower_bound)}).`;
  const limits = certificate.issued ? [{ y: certificate.radius, words: "the surrogate, after one pass", kind: "good" }] : [];
  lineChart(find("verify-plot"), {
    title: `Certified radius by number of votes; now ${down(look.radius)}`,
    lines: [{ points: [[0, 0], ...looks.map(({ votes, radius }) => [votes, radius])], kind: "" }],
    limits, right: budget, top: 1.35 * Math.max(certificate.radius, look.radius, 0.05), across: "votes", up: "certified radius",
  });
}

function compared(look, certificate) {
  if (!look.issued) return `After ${count(look.votes)} votes Monte Carlo certifies nothing for this input${certificate.issued ? `, where the surrogate certified ${down(certificate.radius)}.` : " either."}`;
  const found = `After ${count(look.votes)} votes Monte Carlo certifies ${look.class_name} within ${down(look.radius)}`;
  if (!certificate.issued) return `${found}; the surrogate had abstained.`;
  if (look.label !== certificate.label) return `${found}, a class other than the surrogate’s. The surrogate’s certificate is wrong here.`;
  return look.radius >= certificate.radius
    ? `${found}. This confirms the surrogate’s ${down(certificate.radius)}, also for attacked inputs.`
    : `${found}, less than the surrogate’s ${down(certificate.radius)}. More votes could certify more; this does not refute it.`;
}

/* The monitor ------------------------------------------------------------------------------------- */

async function showMonitor() {
  let seen;
  try {
    seen = await (await ask("v1/monitor")).json();
  } catch (error) {
    if (!(error instanceof Problem)) console.error(error);
    return;
  }
  find("monitor").hidden = false;
  find("alarm").hidden = !seen.alarm;
  find("monitor-words").textContent = seen.alarm
    ? "Alarm: inputs have changed. The promise above assumes that they have not. Recalibrate the certifier."
    : "Nothing unusual so far.";
  const tests = [["every query", seen.label_free, ""], ["audited queries", seen.audits, "second"]].filter(([, test]) => test?.history.length);
  const counts = `${count(seen.queries)} ${seen.queries === 1 ? "query" : "queries"} seen, ${count(seen.audited)} audited with votes.`;
  find("monitor-caption").textContent = tests.length
    ? `${counts} The chart shows the evidence that inputs have changed, as a share of the alarm threshold. It stays low while nothing changes. The probability of ever raising a false alarm is at most ${seen.label_free.false_alarm_rate} per test. ${tests.map(([name, , kind]) => `${kind ? "Yellow" : "Blue"}: ${name}.`).join(" ")}`
    : counts;
  find("monitor-plot").hidden = tests.length === 0;
  if (!tests.length) return;
  const first = Math.min(...tests.map(([, test]) => test.history[0][1]));
  const lines = tests.map(([, test, kind]) => ({ kind, points: test.history.map(([, time, capital]) => [(time - first) / 60, Math.max(0, capital / test.alarm_at_log_capital)]) }));
  const all = lines.flatMap(({ points }) => points);
  lineChart(find("monitor-plot"), {
    title: seen.alarm ? "Evidence against unchanged inputs: alarm" : "Evidence against unchanged inputs: below the alarm",
    lines, limits: [{ y: 1, words: "alarm", kind: "bad" }],
    right: Math.max(...all.map(([minutes]) => minutes), 0.1), top: Math.max(1.3, ...all.map(([, share]) => 1.1 * share)),
    across: "minutes", up: "evidence",
  });
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
find("verify").addEventListener("click", verify);
find("stop").addEventListener("click", stopVerification);
find("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  state.token = find("token").value.trim();
  find("token-form").hidden = true;
  start();
});
start();
