"use strict";
// Tables can be sorted by a click on a heading; everything is to be read without it.
for (const table of document.querySelectorAll("table.sortable")) {
  // Above may be a row of common headings.
  const heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") === (head.className === "n" ? "descending" : "ascending");
      const down = head.className === "n" ? !up : up;
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => {
        const cell = row.cells[column];
        if (!cell || cell.title === "not measured") return null;
        return cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v);
      };
      const compare = (a, b) =>
        typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
      const body = table.tBodies[0];
      const rows = [...body.rows].map((row) => [key(row), row]);
      // What was not measured stays at the end.
      rows.sort(([a], [b]) => (a === null || b === null ? (a === null) - (b === null) : down ? compare(b, a) : compare(a, b)));
      body.append(...rows.map(([, row]) => row));
    });
  });
}
