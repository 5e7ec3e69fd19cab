/* Asking the service, and what all parts of the page share. */

export const find = (name) => document.getElementById(name);
export const state = { card: null, token: "", input: null, certificate: null, verification: null, asked: 0 };

/** Write a radius or bound with four decimals, rounded down. */
export const down = (value) => (Math.floor(value * 1e4 + 1e-7) / 1e4).toFixed(4);
export const count = (value) => value.toLocaleString("en");

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export class Problem extends Error {}

export async function ask(path, options = {}) {
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

export const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.?!]$/.test(text) ? "" : ".");
