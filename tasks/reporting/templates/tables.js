// Tables of the class "sortable" are sorted by a click on a heading, filtered, and copied.
"use strict";
const NUMBER = /^[+-]?[\d,]*\.?\d+(e[+-]?\d+)?(?=$| %| of | to )/;
const FEWEST_ROWS = 10; // of a table that has a filter
const NOTHING = "\u2013";

const cellsOfGroups = [...document.querySelectorAll("td.group")].map(textOf);
const GROUPS = [...new Set(cellsOfGroups)].filter((name) => name !== NOTHING);
// Of each table with groups, what shows one: some of its columns are kept and others dropped.
const grouped = [];

function made(name, properties) {
  return Object.assign(document.createElement(name), properties);
}

function textOf(cell) {
  return cell.textContent.trim();
}

// Numbers come before text, and what is not known comes last in either direction.
function compare(one, other, sign) {
  const texts = [one, other].map(textOf);
  const missing = texts.map((text) => text === NOTHING || text === "");
  if (missing[0] || missing[1]) return missing[0] - missing[1];
  const numbers = texts.map((text) => NUMBER.exec(text)?.[0].replaceAll(",", ""));
  if (numbers[0] && numbers[1]) return sign * (numbers[0] - numbers[1]);
  if (numbers[0] || numbers[1]) return sign * (numbers[0] ? -1 : 1);
  return sign * texts[0].localeCompare(texts[1], "en", { numeric: true });
}

function enhance(table) {
  const body = table.tBodies[0], rows = [...body.rows], headings = [...table.tHead.rows[0].cells];
  if (rows.length < 2) return;
  const words = rows.map((row) => [...row.cells].map(textOf).join("\t").toLowerCase());

  headings.forEach((heading, place) => {
    const button = made("button", { type: "button", textContent: heading.textContent });
    button.addEventListener("click", () => {
      const next = { ascending: "descending", descending: null }[heading.ariaSort];
      headings.forEach((each) => { each.ariaSort = null; });
      heading.ariaSort = next === undefined ? "ascending" : next;
      const sign = { ascending: 1, descending: -1 }[heading.ariaSort];
      const ordered = sign ? rows.toSorted((a, b) => compare(a.cells[place], b.cells[place], sign)) : rows;
      body.append(...ordered);
    });
    heading.replaceChildren(button);
  });

  const ofGroup = headings.findIndex((heading) => heading.className === "group");
  if (rows.length < FEWEST_ROWS && ofGroup < 0) return;
  const field = made("input", { type: "search", autocomplete: "off" });
  field.setAttribute("aria-label", `Filter: ${table.caption.textContent}`);
  field.placeholder = "Filter rows";
  const group = made("select"), count = made("output");
  group.setAttribute("aria-label", `Group: ${table.caption.textContent}`);
  const filter = () => {
    const wanted = field.value.trim().toLowerCase();
    rows.forEach((row, i) => {
      const isOfGroup = !group.value || textOf(row.cells[ofGroup]) === group.value;
      row.hidden = !isOfGroup || !words[i].includes(wanted);
    });
    const shown = rows.filter((row) => !row.hidden).length;
    count.textContent = shown < rows.length ? `${shown} of ${rows.length} rows` : "";
  };
  field.addEventListener("input", filter);

  const tools = made("div", { className: "tools" });
  tools.append(field);
  if (ofGroup >= 0) {
    group.append(new Option("All groups", ""), ...GROUPS.map((name) => new Option(name)));
    group.addEventListener("change", () => grouped.forEach((show) => show(group.value)));
    grouped.push((name) => {
      group.value = name;
      table.closest("details").open ||= name !== "";
      filter();
    });
    tools.append(group);
  }
  if (navigator.clipboard) {
    const copy = made("button", { type: "button", textContent: "Copy" });
    copy.addEventListener("click", async () => {
      const lines = [headings, ...[...body.rows].filter((row) => !row.hidden).map((row) => [...row.cells])];
      await navigator.clipboard.writeText(lines.map((cells) => cells.map(textOf).join("\t")).join("\n"));
      copy.textContent = "Copied";
    });
    tools.append(copy);
  }
  tools.append(count);
  table.parentElement.before(tools);
}

document.querySelectorAll("table.sortable").forEach(enhance);
