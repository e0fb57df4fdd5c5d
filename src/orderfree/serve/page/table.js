// A CSV file, tagged: read here, sent to /v1/predict a few rows at a time, given back with a column of labels.
// The file never leaves the browser as a whole, so every limit of the service holds.

import { $, chip, element } from "./elements.js";

const MOST_ROWS = 20000;
const MOST_BYTES = 20e6;
const MOST_TEXTS = 64; // in one request
const PREVIEW = 5; // rows that are shown
const PATIENCE = 20; // times a busy service is asked again
const TEXT_NAMES = /^(text|texts|body|content|abstract|description|message|comment|document)$/i;
const DELIMITERS = [",", ";", "\t", "|"];
const isTable = (file) => /\.(csv|tsv)$/i.test(file.name);

let table = null; // { name, rows, delimiter }
let tagging = null; // AbortController of the run under way
let link = null; // address of the last result

// ------------------------------------------------------------------ from bytes to rows and back

function decoded(bytes) {
  const [first, second] = new Uint8Array(bytes);
  if (first === 0xff && second === 0xfe) return new TextDecoder("utf-16le").decode(bytes);
  if (first === 0xfe && second === 0xff) return new TextDecoder("utf-16be").decode(bytes);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return new TextDecoder("windows-1252").decode(bytes); // Excel's, where it is not told otherwise
  }
}

function delimiterOf(text) {
  const line = text.slice(0, 100000).replace(/"(?:[^"]|"")*"/g, "").split(/\r?\n/, 1)[0];
  const counts = DELIMITERS.map((one) => line.split(one).length);
  return DELIMITERS[counts.indexOf(Math.max(...counts))];
}

function parsed(text, delimiter) {
  const rows = [];
  let row = [], cell = "", quoted = false;
  const endRow = () => {
    row.push(cell);
    if (row.length > 1 || row[0] !== "") rows.push(row);
    [row, cell] = [[], ""];
  };
  for (let place = 0; place < text.length; place++) {
    const sign = text[place];
    if (quoted) {
      if (sign !== '"') cell += sign;
      else if (text[place + 1] === '"') cell += text[++place];
      else quoted = false;
    } else if (sign === '"' && cell === "") quoted = true;
    else if (sign === delimiter) { row.push(cell); cell = ""; }
    else if (sign === "\n") endRow();
    else if (sign !== "\r" || text[place + 1] !== "\n") cell += sign;
  }
  if (quoted) throw new Error("A cell begins with a quotation mark that is never closed.");
  if (cell !== "" || row.length) endRow();
  return rows;
}

function written(rows, delimiter) {
  const cell = (value) => (/["\r\n]/.test(value) || value.includes(delimiter) ? `"${value.replaceAll('"', '""')}"` : value);
  return rows.map((row) => row.map(cell).join(delimiter)).join("\r\n") + "\r\n";
}

function likelyText(rows) {
  const named = rows[0].findIndex((name) => TEXT_NAMES.test(name.trim()));
  if (named >= 0) return named;
  const lengths = rows[0].map((_, column) => rows.slice(1, 51).reduce((sum, row) => sum + (row[column] ?? "").length, 0));
  return lengths.indexOf(Math.max(...lengths));
}

// ------------------------------------------------------------------ showing and tagging

async function openTable(file) {
  if (file.size > MOST_BYTES) throw new Error(`${file.name} is too large: this page tags tables of up to ${MOST_BYTES / 1e6} MB; use \`orderfree predict\`.`);
  const text = decoded(await file.arrayBuffer());
  const delimiter = delimiterOf(text);
  const rows = parsed(text, delimiter);
  if (rows.length < 2) throw new Error(`${file.name} has no rows below its heading.`);
  if (rows.length - 1 > MOST_ROWS) throw new Error(`${file.name} has ${(rows.length - 1).toLocaleString("en")} rows; this page tags up to ${MOST_ROWS.toLocaleString("en")}; use \`orderfree predict\`.`);
  tagging?.abort();
  table = { name: file.name, rows, delimiter };
  $("column").replaceChildren(...rows[0].map((name, place) => element("option", { value: place }, name || `column ${place + 1}`)));
  $("column").value = likelyText(rows);
  $("table-name").textContent = `${file.name}: ${(rows.length - 1).toLocaleString("en")} rows`;
  $("table-result").hidden = true;
  $("table-section").hidden = false;
  if ($("results").hidden) $("status").textContent = "";
  $("tag").focus();
}

async function asked(call, texts, options, signal) {
  for (let attempt = 0; ; attempt++) {
    try {
      return (await call("v1/predict", { texts, probs: "none", ...options }, signal)).predictions;
    } catch (error) {
      if (error.status !== 429 || attempt === PATIENCE) throw error;
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
  }
}

// Groups that a request may hold, by number of texts and by bytes.
function* requests(texts, limits) {
  let group = [], bytes = 0;
  for (const text of texts) {
    const size = new TextEncoder().encode(JSON.stringify(text)).length + 1;
    if (group.length && (group.length === Math.min(limits.texts, MOST_TEXTS) || bytes + size > limits.body_bytes / 2)) {
      yield group;
      [group, bytes] = [[], 0];
    }
    group.push(text);
    bytes += size;
  }
  if (group.length) yield group;
}

async function tag(call, model, options) {
  const mine = (tagging = new AbortController());
  const column = Number($("column").value);
  const [header, ...rows] = table.rows;
  const longest = model.limits.characters;
  const texts = rows.map((row) => Array.from(row[column] ?? "").slice(0, longest).join(""));
  const sets = [];
  $("tag").setAttribute("aria-disabled", "true");
  try {
    for (const group of requests(texts, model.limits)) {
      $("table-progress").textContent = `Tagging: ${sets.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")} rows`;
      sets.push(...(await asked(call, group, options, mine.signal)).map((one) => one.labels));
    }
    finish(header, rows, texts, sets);
  } catch (error) {
    if (error.name !== "AbortError") throw error;
  } finally {
    $("table-progress").textContent = "";
    if (tagging === mine) $("tag").removeAttribute("aria-disabled");
  }
}

function finish(header, rows, texts, sets) {
  const separator = sets.some((labels) => labels.some((label) => label.includes(";"))) ? "|" : ";";
  let name = "labels";
  while (header.includes(name)) name = `predicted ${name}`;
  const width = Math.max(header.length, ...rows.map((row) => row.length));
  const filled = (row) => [...row, ...Array(width - row.length).fill("")];
  const result = [[...filled(header), name], ...rows.map((row, place) => [...filled(row), sets[place].join(separator)])];
  if (link) URL.revokeObjectURL(link);
  link = URL.createObjectURL(new Blob(["\ufeff", written(result, table.delimiter)], { type: "text/csv" }));
  $("download").href = link;
  $("download").download = table.name.replace(/(\.\w+)$/, "-tagged$1");
  $("download").textContent = `Save ${$("download").download}`;
  const none = sets.filter((labels) => !labels.length).length;
  const blank = texts.filter((text) => !text.trim()).length;
  $("table-note").textContent =
    `${rows.length.toLocaleString("en")} rows tagged, in the column "${name}", several separated by "${separator}"` +
    (none ? `; ${none.toLocaleString("en")} without any label` : "") +
    (blank ? `; ${blank.toLocaleString("en")} have no text, so their labels mean nothing` : "") + ".";
  $("preview").replaceChildren(...sets.slice(0, PREVIEW).map((labels, place) => {
    const text = texts[place].length > 120 ? `${texts[place].slice(0, 120)} …` : texts[place];
    const chips = labels.length ? labels.map((label) => chip(label, null, "chosen")) : ["no label"];
    return element("li", {}, text, element("ul", { class: "chips small" }, ...chips));
  }));
  $("table-result").hidden = false;
}

export { isTable, openTable, tag };
