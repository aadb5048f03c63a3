// A click on a column header sorts the rows by that column, a second click reverses them: numbers by their full
// value (data-value), text alphabetically with the numbers in it by size, empty cells always last.
"use strict";

function key(cell) {
  if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
  return cell.classList.contains("empty") ? null : cell.textContent;
}

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
  return a.localeCompare(b, "en", { numeric: true });
}

function sort(table, heading) {
  const direction = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
  const rows = [...table.tBodies[0].rows].map((row) => [key(row.cells[heading.cellIndex]), row]);
  rows.sort(([a], [b]) => {
    if (a === null || b === null) return (a === null) - (b === null);
    return direction * compare(a, b);
  });
  table.tBodies[0].append(...rows.map(([, row]) => row));
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", direction === 1 ? "ascending" : "descending");
}

for (const table of document.querySelectorAll("table")) {
  for (const heading of table.tHead.rows[0].cells) {
    heading.firstElementChild.addEventListener("click", () => sort(table, heading));
  }
}
