/* Monte Carlo: votes as they come, and how they compare. */
import { Problem, ask, count, down, find, sentence, state } from "./asking.js";
import { lineChart } from "./charts.js";

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

export async function verify() {
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

export function stopVerification() {
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
