"use strict";
// Without this script a table is a table. With it, a click on a heading sorts, long tables can be
// searched, and a table that is wider than the screen says so.
const number = (text) => {
  const found = text.replaceAll(",", "").match(/-?\d+(\.\d+)?/);
  return found ? Number(found[0]) : Number.NEGATIVE_INFINITY;
};
const compared = (rows, column, words) =>
  rows.map((row) => row.cells[column].textContent.trim())
    .map((text, place) => ({ row: rows[place], key: words ? text.toLowerCase() : number(text) }));

for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const words = column === 0 || heading.classList.contains("name");
      // numbers fall at first, words rise
      const first = words ? "ascending" : "descending";
      const other = words ? "descending" : "ascending";
      const order = heading.getAttribute("aria-sort") === first ? other : first;
      headings.forEach((each) => each.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      const keyed = compared([...body.rows], column, words);
      keyed.sort((a, b) => sign * (words ? a.key.localeCompare(b.key) : (a.key > b.key) - (a.key < b.key)));
      body.append(...keyed.map(({ row }) => row));
    });
  });
  if (body.rows.length > 15) {
    const search = document.createElement("input");
    search.type = "search";
    search.placeholder = `Search ${body.rows.length} rows`;
    search.setAttribute("aria-label", search.placeholder);
    table.closest(".scroll").before(search);
    search.addEventListener("input", () => {
      const wanted = search.value.trim().toLowerCase();
      for (const row of body.rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
    });
  }
}

const watched = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const cut = target.scrollWidth > target.clientWidth + 1;
    target.classList.toggle("cut", cut);
    target.nextElementSibling.hidden = !cut;
  }
});
for (const area of document.querySelectorAll(".scroll")) {
  const hint = document.createElement("p");
  hint.className = "more";
  hint.textContent = "Wider than the screen: scroll sideways for the rest →";
  hint.hidden = true;
  area.after(hint);
  watched.observe(area);
}
