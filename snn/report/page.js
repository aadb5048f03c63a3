// A click on a column header sorts the rows by that column, a second click reverses them: numbers by their full
// value (data-value), text alphabetically with the numbers in it by size, empty cells always last.
//
// Of a long table only some rows are laid out, which takes a browser most of its time. The first of them are in the
// table; the others stand as text behind it, and become rows when they are sorted or turned to.
"use strict";

function key(cell) {
  if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
  return cell.classList.contains("empty") ? null : cell.textContent;
}

const collator = new Intl.Collator("en", { numeric: true });

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
  return collator.compare(a, b);
}

function sorted(rows, column, direction) {
  const keyed = rows.map((row) => [key(row.cells[column]), row]);
  keyed.sort(([a], [b]) => {
    if (a === null || b === null) return (a === null) - (b === null);
    return direction * compare(a, b);
  });
  return keyed.map(([, row]) => row);
}

// Out from under the first column, where a browser that focuses a button calls it visible. Not at a click: nothing
// moves under the pointer.
const NEAREST = { block: "nearest", inline: "nearest" };

function prepare(frame) {
  const table = frame.querySelector("table");
  const body = table.tBodies[0];
  const others = frame.parentNode.querySelector(".others");
  const pager = frame.parentNode.querySelector(".pager");
  const shown = body.rows.length;
  let rows = null;
  let first = 0;

  function all() {
    if (rows === null) {
      const rest = document.createElement("tbody");
      rest.innerHTML = others ? others.textContent : "";
      rows = [...body.rows, ...rest.rows];
    }
    return rows;
  }

  function show(from) {
    first = Math.max(0, Math.min(from, all().length - 1));
    first -= first % shown;
    const visible = all().slice(first, first + shown);
    body.replaceChildren(...visible);
    frame.scrollTop = 0;
    if (!pager) return;
    pager.querySelector("output").value = `${first + 1} to ${first + visible.length}`;
    disable(first === 0, first + shown >= all().length);
  }

  function disable(...ends) {
    pager.querySelectorAll("button").forEach((button, i) => button.setAttribute("aria-disabled", ends[i >> 1]));
  }

  function sort(heading) {
    const direction = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    rows = sorted(all(), heading.cellIndex, direction);
    show(0);
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", direction === 1 ? "ascending" : "descending");
  }

  for (const heading of table.tHead.rows[0].cells) {
    const button = heading.firstElementChild;
    button.addEventListener("click", () => sort(heading));
    button.addEventListener("focus", () => button.matches(":focus-visible") && heading.scrollIntoView(NEAREST));
  }
  const sizes = new ResizeObserver(([{ target }]) => {
    frame.style.setProperty("--first-width", `${target.offsetWidth}px`);
    frame.style.setProperty("--head-height", `${target.offsetHeight}px`);
  });
  for (const corner of table.querySelectorAll("thead th:first-child")) sizes.observe(corner);
  if (pager) {
    pager.hidden = false;
    disable(true, false);
    const moves = [() => 0, () => first - shown, () => first + shown, () => all().length - 1];
    pager.querySelectorAll("button").forEach((button, i) => button.addEventListener("click", () => show(moves[i]())));
  }
}

for (const frame of document.querySelectorAll(".frame")) prepare(frame);
