/* What is promised, in words. */
import { count, element, find } from "./asking.js";

/* What may happen to inputs before they are certified; null if nothing is promised about that. */
const threatOf = (guarantee) => guarantee.facts.calibration?.threat ?? null;

/** Return the facts that head the page: the kind of promise, its failure, and the attack that it covers. */
export function promiseFacts(guarantee) {
  const { kind, calibration } = guarantee.facts, threat = threatOf(guarantee);
  const sure = calibration?.confidence ? `, with confidence ${calibration.confidence}` : "";
  const words = { marginal: "on average", pac: sure.slice(2), issued: `among issued radii${sure}`, "per-input": "for each input", none: "nothing" };
  const groups = calibration?.groups ? `, in each ${new Set(calibration.groups).size === calibration.groups.length ? "class" : "group of classes"}` : "";
  const attack = threat ? { "attack radius": threat.radius, "query noise": threat.query_noise, ...(threat.tries > 1 ? { tries: count(threat.tries) } : {}) } : {};
  return { promise: `${words[kind]}${groups} (${kind})`, "allowed failures": guarantee.failure, ...attack };
}

function coveredBy({ facts: { kind, calibration }, failure }, in100) {
  if (kind === "none") return ["Nothing.", "The radii here come without a promise."];
  if (kind === "per-input") return ["Any input, whatever it is.", `The probability of a wrong radius is at most ${in100(failure)} in 100, over the noise.`];
  const sure = calibration?.confidence ? `With confidence ${calibration.confidence} over the calibration inputs, at` : "On average, at";
  const among = kind === "issued" ? "radii issued for inputs" : "inputs";
  const wrong = kind === "issued" ? "are wrong" : "get a wrong radius";
  const natural = calibration?.threat ? calibration.natural_failure : failure;
  return ["Inputs like the calibration inputs.", `${sure} most ${in100(natural)} in 100 ${among} drawn like the calibration inputs ${wrong}.`];
}

/** Say what a guarantee covers. */
export function showPromise(guarantee) {
  const in100 = (failure) => Number((100 * Number(failure)).toPrecision(12)).toLocaleString("en", { maximumFractionDigits: 4, roundingMode: "ceil" });
  const { kind, calibration } = guarantee.facts, threat = threatOf(guarantee);
  const [title, covered] = coveredBy(guarantee, in100);
  find("covered-title").textContent = title;
  find("covered").textContent = covered;
  find("covered").closest("li").className = kind === "none" ? "no" : "yes";
  find("chosen").closest("li").hidden = !calibration;
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

