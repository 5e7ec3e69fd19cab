/* The monitor: whether inputs still look like the calibration inputs. */
import { Problem, ask, count, find } from "./asking.js";
import { lineChart } from "./charts.js";

const EVERY = 20_000;
const AFTER = {
  warn: "Certificates carry a warning.",
  abstain: "The service abstains on every input.",
  "monte-carlo": "Certificates come from Monte Carlo votes instead, which hold for any input.",
};
const UNITS = [["seconds", 1], ["minutes", 60], ["hours", 3600], ["days", 86400]];
let timer = null;

/** Return name and length of the unit in which a time of so many seconds is shown: the largest that fits. */
export const unitOf = (seconds) => UNITS.findLast(([, length]) => seconds >= length) ?? UNITS[0];

/** Show the monitor now, and again every few seconds while the page is in sight. */
export function watchMonitor() {
  showMonitor();
  timer ??= setInterval(() => document.visibilityState === "visible" && showMonitor(), EVERY);
}

async function showMonitor() {
  let seen;
  try {
    seen = await (await ask("v1/monitor")).json();
  } catch (error) {
    if (!(error instanceof Problem)) console.error(error);
    return;
  }
  find("monitor").hidden = false;
  find("alarm-after").textContent ||= AFTER[seen.policy] ?? "";
  find("alarm").hidden = !seen.alarm;
  find("monitor-words").textContent = seen.alarm
    ? "Alarm: inputs have changed. The promise above assumes that they have not. Recalibrate the certifier."
    : seen.writes === false ? "The monitor cannot write to its database, so it may miss a change. See the log of the service." : "Nothing unusual so far.";
  const tests = [["every query", seen.label_free, ""], ["audited queries", seen.audits, "second"]].filter(([, test]) => test?.history.length);
  const counts = `${count(seen.queries)} ${seen.queries === 1 ? "query" : "queries"} seen, ${count(seen.audited)} audited with votes.`;
  find("monitor-caption").textContent = tests.length
    ? `${counts} The chart shows the evidence that inputs have changed, as a share of the alarm threshold. It stays low while nothing changes. The probability of ever raising a false alarm is at most ${seen.label_free.false_alarm_rate} per test. ${tests.map(([name, , kind]) => `${kind ? "Yellow" : "Blue"}: ${name}.`).join(" ")}`
    : counts;
  find("monitor-plot").hidden = tests.length === 0;
  if (!tests.length) return;
  const first = Math.min(...tests.map(([, test]) => test.history[0][1]));
  const last = Math.max(...tests.map(([, test]) => test.history.at(-1)[1])), [unit, length] = unitOf(last - first);
  const lines = tests.map(([, test, kind]) => ({ kind, points: test.history.map(([, time, capital]) => [(time - first) / length, Math.max(0, capital / test.alarm_at_log_capital)]) }));
  const all = lines.flatMap(({ points }) => points);
  lineChart(find("monitor-plot"), {
    title: seen.alarm ? "Evidence against unchanged inputs: alarm" : "Evidence against unchanged inputs: below the alarm",
    lines, limits: [{ y: 1, words: "alarm", kind: "bad" }],
    right: Math.max((last - first) / length, 1), top: Math.max(1.3, ...all.map(([, share]) => 1.1 * share)),
    across: unit, up: "evidence",
  });
}

