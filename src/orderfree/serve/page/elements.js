// Making elements. Labels and texts may hold anything, so they only ever become text nodes.

const MISSING = "–";
const $ = (id) => document.getElementById(id);

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") made.className = value;
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value != null) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function percent(share) {
  if (share == null) return MISSING;
  if (share > 0 && share < 0.001) return "< 0.1 %";
  if (share < 1 && share > 0.999) return "> 99.9 %";
  return `${(100 * share).toFixed(1)} %`;
}

function bar(share, kind = "") {
  const inner = element("i");
  inner.style.width = `${100 * Math.min(share ?? 0, 1)}%`;
  return element("span", { class: `bar ${kind}`, "aria-hidden": "true" }, inner);
}

function measured(share, kind, threshold) {
  const drawn = bar(share, kind);
  if (threshold != null) {
    drawn.classList.add("tick");
    drawn.style.setProperty("--at", `${100 * Math.min(threshold, 0.99)}%`);
  }
  return element("td", {}, element("span", { class: "measure" }, drawn, element("span", { class: "number" }, percent(share))));
}

function chip(label, share, kind) {
  const made = element("li", { class: `chip ${kind}` }, element("b", {}, label));
  if (share != null) made.append(element("span", { class: "share" }, share));
  return made;
}

function headings(row, names) {
  row.replaceChildren(...names.map((name) => element("th", { scope: "col" }, name)));
}

export { $, MISSING, bar, chip, element, headings, measured, percent };
