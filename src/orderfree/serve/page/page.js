// The page: asks /v1/explain and shows the answer.

import { $, MISSING, bar, chip, element, headings, measured, percent } from "./elements.js";
import { isTable, openTable, tag } from "./table.js";

const EXAMPLE_SHOWN = 60; // characters of an example's text on its button
const SETS_SHOWN = 12; // of a list of candidates
const KNOWN_SHOWN = 40; // labels that are listed at once
let model = null; // what /v1/model says
let shown = null; // { text, answer } on the page
let asking = null; // AbortController of the request under way

// ------------------------------------------------------------------ asking the service

async function call(path, body, signal) {
  const headers = {};
  const token = $("token").value.trim();
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The service cannot be reached. Is it still running?");
  }
  const answer = await response.json().catch(() => null);
  if (response.ok && answer) return answer;
  if (response.status === 401) $("token-row").hidden = false;
  const message = answer?.detail ? `${answer.title}: ${answer.detail}` : `The service answered with status ${response.status}.`;
  throw Object.assign(new Error(message), { status: response.status });
}

function options() {
  const number = (id) => ($(id).value === "" ? undefined : Number($(id).value));
  return {
    decoder: $("decoder").value || undefined,
    optimize_for: $("metric").value || undefined,
    thresholds: $("threshold").disabled ? undefined : number("threshold"),
    min_labels: number("min-labels"),
    max_labels: number("max-labels"),
  };
}

async function predict() {
  const text = $("text").value;
  if (!text.trim()) return fail(new Error("Enter a text first."), $("text"));
  if (Array.from(text).length > (model?.limits.characters ?? Infinity)) {
    return fail(new Error(`The text is too long: this service reads up to ${model.limits.characters.toLocaleString("en")} characters.`), $("text"));
  }
  asking?.abort();
  const mine = (asking = new AbortController());
  $("predict").setAttribute("aria-disabled", "true");
  $("status").textContent = "Predicting …";
  try {
    if (!model) await describe();
    const answer = await call("v1/explain", { text, ...options() }, mine.signal);
    shown = { text, answer };
    $("problem").hidden = true;
    show();
    if ($("answer").getBoundingClientRect().top > 0.8 * innerHeight) $("answer").scrollIntoView(); // one column: a phone
  } catch (error) {
    if (error.name !== "AbortError") fail(error);
  } finally {
    if (asking === mine) {
      asking = null;
      $("predict").removeAttribute("aria-disabled");
    }
  }
}

function fail(error, focus) {
  $("status").textContent = "";
  $("problem").textContent = error.message;
  $("problem").hidden = false;
  $("results").classList.toggle("stale", shown !== null);
  focus?.focus();
}

// ------------------------------------------------------------------ the model

async function describe() {
  model = await call("v1/model");
  const count = Object.keys(model.labels).length;
  $("model-name").textContent = model.name;
  $("model-facts").textContent = `predicts which of ${count.toLocaleString("en")} labels a text has`;
  document.title = `${model.name} · orderfree`;
  const named = (value, text) => element("option", { value }, text);
  $("decoder").replaceChildren(
    named("", `recommended (${model.default_decoder})`),
    ...model.decoders.map((one) => named(one.name, one.name)),
  );
  const metrics = Object.entries(model.best_decoder);
  $("metric").replaceChildren(named("", MISSING), ...metrics.map(([metric, best]) => named(metric, `${metric.replaceAll("_", " ")} (${best})`)));
  $("metric-row").hidden = metrics.length === 0;
  $("min-labels").placeholder = `${model.min_labels}`;
  $("max-labels").placeholder = `${model.max_labels}`;
  thresholdOrNot();
  const promises = Object.values(model.promises);
  $("promises").hidden = promises.length === 0;
  $("promise-list").replaceChildren(...promises.map((sentence) => element("li", {}, sentence)));
  showExamples();
  showKnown();
}

function showExamples() {
  $("examples-row").hidden = model.examples.length === 0;
  $("examples").replaceChildren(...model.examples.map((text) => {
    const shownText = text.length > EXAMPLE_SHOWN ? `${text.slice(0, EXAMPLE_SHOWN).replace(/\s+\S*$/, "")} …` : text;
    const button = element("button", { type: "button", class: "example", title: text.slice(0, 500) }, shownText);
    button.addEventListener("click", () => {
      $("text").value = text;
      predict();
    });
    return element("li", {}, button);
  }));
}

// Few labels are listed; of many, those that match what is typed, the most frequent first.
function showKnown() {
  const all = Object.entries(model.labels).sort((a, b) => b[1] - a[1]);
  $("known-row").hidden = all.length <= KNOWN_SHOWN;
  const wanted = $("known-search").value.trim().toLowerCase();
  const matching = wanted ? all.filter(([label]) => label.toLowerCase().includes(wanted)) : all;
  $("known-labels").replaceChildren(...matching.slice(0, KNOWN_SHOWN).map(([label, count]) => chip(label, count.toLocaleString("en"), "")));
  const more = matching.length - KNOWN_SHOWN;
  const rest = more > 0 ? ` ${more.toLocaleString("en")} more: type a part of a name.` : "";
  $("known-note").textContent = matching.length ? `Numbers are training examples.${rest}` : "No label name contains this.";
}

function thresholdOrNot() {
  const name = $("decoder").value || model?.best_decoder[$("metric").value] || model?.default_decoder;
  const known = model?.decoders.find((one) => one.name === name);
  $("threshold").disabled = !known?.has_threshold;
  $("threshold").placeholder = known?.has_threshold ? "tuned" : "none";
}

// ------------------------------------------------------------------ showing an answer

function show() {
  const { answer } = shown;
  $("results").hidden = false;
  $("results").classList.remove("stale");
  showSet(answer);
  showPossible(answer);
  showSteps(answer);
  showWordChoices(answer);
  showSets(answer);
  showComparison(answer);
  const labels = answer.prediction.labels;
  const many = labels.length === 1 ? "1 label" : `${labels.length} labels`;
  const names = element("span", { class: "unseen" }, `: ${labels.join(", ")}`);
  $("status").replaceChildren(`${labels.length ? many : "No labels"} · decoder ${answer.decoder}`, ...(labels.length ? [names] : []));
}

function showSet({ prediction, comparison, caveat }) {
  $("caveat").textContent = caveat ?? "";
  $("caveat").hidden = !caveat;
  const share = new Map(comparison.map((one) => [one.label, one.br_prob ?? one.sequence_prob]));
  $("chips").replaceChildren(...prediction.labels.map((label) => chip(label, percent(share.get(label)), "chosen")));
  const source = prediction.probs ? "With the probability of each label." : "With the share of likely label sets that contain the label.";
  const cut = prediction.truncated ? ` Only the first ${model.max_words.toLocaleString("en")} words were read.` : "";
  $("set-note").textContent = (prediction.labels.length ? source : "The model predicts no label for this text.") + cut;
}

// The list of label sets that holds the true one; a list of more than one is for a person to look at.
function showPossible({ possible }) {
  $("possible-section").hidden = !possible;
  if (!possible) return;
  const chips = possible.sets.slice(0, SETS_SHOWN).map((one) => chip(one.labels.join(" + ") || "no label", percent(one.prob), ""));
  const more = possible.sets.length - chips.length;
  if (more > 0) chips.push(element("li", { class: "quiet" }, `and ${more} more`));
  if (possible.outside.possible) chips.push(chip("none of these", percent(possible.outside.prob), "against"));
  $("possible").replaceChildren(...chips);
  $("doubtful").hidden = !possible.doubtful;
  const count = possible.sets.length === 1 ? "1 set" : `${possible.sets.length} sets`;
  $("doubtful").textContent = possible.doubtful
    ? `Doubtful: ${count}${possible.outside.possible ? ", and sets that were not found," : ""} may be the true one. A person should check this text.`
    : "";
  $("possible-note").textContent = possible.promise;
}

function showSteps({ generation, decoder, prediction }) {
  $("steps-section").hidden = !generation;
  if (!generation) return;
  const whose =
    generation.decoder === decoder
      ? "Candidates of the label decoder at each step (blue), and the one it chose."
      : `${decoder} does not order labels; these are the steps of the label decoder alone (${generation.decoder}).`;
  const beside = prediction.probs ? " Orange: binary relevance." : "";
  const weighed = prediction.probs && ["joint", "rescore"].includes(generation.decoder) ? ` ${decoder} combines both.` : "";
  $("steps-note").textContent = whose + beside + weighed;
  const taken = [];
  $("steps").replaceChildren(...generation.steps.map((step, place) => {
    const card = stepCard(step, place, [...taken]);
    if (step.taken !== null) taken.push(step.taken);
    return card;
  }));
}

function stepCard(step, place, before) {
  const title = element("h3", {}, element("span", {}, `${place + 1}. `), step.taken ?? "stop", element("span", {}, ` ${percent(step.prob)}`));
  const notes = [];
  if (before.length) notes.push(`after ${before.join(", ")}`);
  if (step.must_stop) notes.push("no more labels are allowed");
  if (!step.may_stop) notes.push("may not stop yet");
  const worthALine = (one, rank) => rank < 3 || one.prob >= 0.001 || one.label === null || one.label === step.taken;
  const rows = step.candidates.filter(worthALine).map((one) => {
    const kind = `${one.label === step.taken ? "taken" : ""} ${one.label === null ? "stop" : ""}`;
    const name = element("span", { class: "name", title: one.label ?? "stop" }, one.label ?? "stop");
    if (one.label === step.taken) name.append(element("span", { class: "unseen" }, " (taken)"));
    const bars = element("span", { class: one.br_prob === null ? "" : "pair" }, bar(one.prob));
    if (one.br_prob !== null) bars.append(bar(one.br_prob, "br"));
    return element("li", { class: kind }, name, bars, element("span", { class: "number" }, percent(one.prob)));
  });
  return element("li", { class: "step" }, title, element("p", { class: "hint" }, notes.join("; ") || "at the start"), element("ul", { class: "bars" }, ...rows));
}

// ------------------------------------------------------------------ words

function showWordChoices(answer) {
  const attended = answer.generation?.steps.filter((step) => step.attention) ?? [];
  const choices = attended.length
    ? attended.map((step, place) => ({ name: `${place + 1}. ${step.taken ?? "stop"}`, attention: step.attention }))
    : (answer.word_weights ?? []).map((one) => ({ name: one.label, words: one.words }));
  const marks = attended.length > 0 || choices.some((one) => one.words.length);
  $("words-note").textContent = marks || !choices.length
    ? wordsNote(answer, attended.length > 0, choices.length)
    : "No word of the text counts for these labels.";
  const legend = $("words-choice").firstElementChild;
  $("words-choice").replaceChildren(legend, ...choices.map((choice, place) => {
    const radio = element("input", { type: "radio", name: "whose", checked: place === 0 });
    radio.addEventListener("change", () => showWords(choice));
    return element("label", {}, radio, choice.name);
  }));
  $("words-choice").hidden = $("words").hidden = choices.length === 0;
  if (choices.length) showWords(choices[0]);
  else $("word-list").replaceChildren();
}

function wordsNote(answer, attended, choices) {
  if (attended) return "Words read by the attention at each step; darker means more attention.";
  if (answer.words_missing) return answer.words_missing;
  if (!choices) return "No label was predicted, so no words are marked.";
  return "Blue words speak for the label, orange words against it. The numbers are their contributions to its score.";
}

function showWords(choice) {
  if (choice.attention) showAttention(choice.attention);
  else showWeights(choice.words);
}

function marked(text, strength, title) {
  const made = element("mark", { title }, text);
  made.style.backgroundColor = `rgba(var(${strength < 0 ? "--against" : "--mark"}), ${Math.min(Math.abs(strength), 1) * 0.55})`;
  return made;
}

function showAttention(attention) {
  const characters = Array.from(shown.text); // spans count characters, not UTF-16 units
  const highest = Math.max(...attention, 1e-9);
  const parts = [];
  let end = 0;
  shown.answer.spans.forEach(([from, to], place) => {
    parts.push(characters.slice(end, from).join(""), marked(characters.slice(from, to).join(""), attention[place] / highest, percent(attention[place])));
    end = to;
  });
  parts.push(characters.slice(end).join(""));
  $("words").replaceChildren(...parts);
  const heaviest = attention.map((weight, place) => [weight, place]).sort((a, b) => b[0] - a[0]).slice(0, 8);
  $("word-list").replaceChildren(...heaviest.map(([weight, place]) => {
    const [from, to] = shown.answer.spans[place];
    return chip(characters.slice(from, to).join(""), percent(weight), "");
  }));
}

function showWeights(words) {
  const weight = new Map(words.map((one) => [one.word, one.weight]));
  const highest = Math.max(...words.map((one) => Math.abs(one.weight)), 1e-9);
  const parts = shown.text.split(/([\p{L}\p{N}_]+)/u).map((part) => {
    const found = weight.get(part) ?? weight.get(part.toLowerCase());
    return found === undefined ? part : marked(part, found / highest, signed(found));
  });
  $("words").replaceChildren(...parts);
  $("word-list").replaceChildren(...words.map((one) => chip(one.word, signed(one.weight), one.weight < 0 ? "against" : "")));
}

function signed(weight) {
  return `${weight < 0 ? "−" : "+"}${Math.abs(weight).toFixed(2)}`;
}

// ------------------------------------------------------------------ tables

function showSets({ alternatives, decoder }) {
  $("sets-section").hidden = !alternatives;
  if (!alternatives) return;
  const withBr = alternatives.sets.some((one) => one.br_prob !== null);
  $("sets-note").textContent =
    alternatives.decoder === decoder
      ? `The sets in the beam of ${decoder}, ranked by their best order; the probabilities of all orders found are added up.`
      : `${decoder} finds a single set; these are the sets of the label decoder alone (${alternatives.decoder}).`;
  headings($("sets-head"), ["Set", "Label decoder", ...(withBr ? ["Binary relevance"] : [])]);
  $("sets").replaceChildren(...alternatives.sets.map((one) => {
    const labels = one.labels.length ? one.labels.map((label) => chip(label, null, "")) : ["no label"];
    const cell = element("th", { scope: "row" }, element("ul", { class: "chips small" }, ...labels));
    return element("tr", {}, cell, measured(one.prob), ...(withBr ? [measured(one.br_prob, "br")] : []));
  }));
}

function showComparison({ comparison }) {
  const first = comparison[0];
  $("compare-section").hidden = !first;
  if (!first) return;
  const [br, sequence] = [first.br_prob !== null, first.sequence_prob !== null];
  const notes = [];
  if (br) notes.push("binary relevance scores each label independently (the line is its threshold)");
  if (sequence) notes.push("the label decoder's value is the share of its sets that contain the label");
  if (!br) notes.push("this model has no binary-relevance decoder");
  if (!sequence) notes.push("this model has no label decoder");
  const note = notes.join("; ");
  $("compare-note").textContent = `${note[0].toUpperCase()}${note.slice(1)}.`;
  headings($("compare-head"), ["Label", ...(br ? ["Binary relevance"] : []), ...(sequence ? ["Label decoder"] : [])]);
  $("compare").replaceChildren(...comparison.map((one) => {
    const name = element("th", { scope: "row" }, one.label);
    if (one.chosen) name.append(element("span", { class: "unseen" }, " (predicted)"));
    return element("tr", { class: one.chosen ? "chosen" : "" }, name,
      ...(br ? [measured(one.br_prob, "br", one.br_threshold)] : []), ...(sequence ? [measured(one.sequence_prob)] : []));
  }));
}

// ------------------------------------------------------------------ files and events

async function take(file) {
  if (!file) return;
  if (isTable(file)) {
    try {
      if (!model) await describe();
      await openTable(file);
      $("problem").hidden = true;
    } catch (error) {
      fail(error);
    }
    return;
  }
  const most = model?.limits.body_bytes ?? 2e6;
  if (file.size > most) return fail(new Error(`${file.name} is too large: this service reads up to ${most.toLocaleString("en")} bytes.`));
  try {
    $("text").value = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    return fail(new Error(`${file.name} is no text in UTF-8.`));
  }
  await predict();
}

function again() {
  thresholdOrNot();
  if (shown) predict();
}

$("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  predict();
});
$("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) predict();
});
$("file").addEventListener("change", async (event) => {
  await take(event.target.files[0]);
  event.target.value = ""; // the same file may be chosen again
});
// a decoder that is named and one that validation chose exclude each other
$("decoder").addEventListener("change", () => { $("metric").value = ""; again(); });
$("metric").addEventListener("change", () => { $("decoder").value = ""; again(); });
$("known-search").addEventListener("input", showKnown);
$("tag").addEventListener("click", async () => {
  if ($("tag").getAttribute("aria-disabled") === "true") return;
  $("problem").hidden = true;
  await tag(call, model, options()).catch(fail);
});
for (const id of ["min-labels", "max-labels", "threshold"]) $(id).addEventListener("change", again);
$("token").addEventListener("change", () => {
  sessionStorage.setItem("token", $("token").value);
  describe().then(() => ($("problem").hidden = true), fail);
});
addEventListener("dragover", (event) => { event.preventDefault(); document.body.classList.add("dropping"); });
addEventListener("dragleave", () => document.body.classList.remove("dropping"));
addEventListener("drop", (event) => {
  event.preventDefault();
  document.body.classList.remove("dropping");
  take(event.dataTransfer.files[0]);
});

$("token").value = sessionStorage.getItem("token") ?? "";
describe().catch(fail);
