// The matrix

// The words of a filter: each has to occur in the case's id, or in a kernel, fact, error or bug of the item; a word
// after "-" must not occur in the id.
function filterWords(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return { wanted: words.filter((word) => !word.startsWith("-")), unwanted: words.filter((word) => word.startsWith("-") && word.length > 1).map((word) => word.slice(1)) };
}
function caseFilter(text) {
  const { wanted, unwanted } = filterWords(text);
  return (said) => wanted.every((word) => said.includes(word)) && !unwanted.some((word) => said.includes(word));
}
function itemFilter(text) {
  const { wanted: words, unwanted } = filterWords(text);
  const wanted = words.map((word) => ({ word, sets: setsWith(word) }));
  return (id) => {
    if (unwanted.some((word) => id.includes(word))) return null;
    const missing = wanted.filter(({ word }) => !id.includes(word));
    if (missing.length && !searched) return null;
    return (number, column) => missing.every(({ sets }) => sets[searched.cells[number][column]]);
  };
}

// The lines that the search knows; null until they are unpacked.
let searched = null;
function setsWith(word) {
  if (!searched) return null;
  const has = searched.lines.map((line) => line.includes(word));
  return searched.sets.map((lines) => lines.some((line) => has[line]));
}

function select(parameters) {
  const filter = itemFilter(parameters.q || "");
  const check = parameters.check ? 1 << index.checks.indexOf(parameters.check) : 0;
  const chosen = new Set((parameters.state || "").split(",").filter(Boolean));
  const columns = index.columns.map((_, number) => number).filter((number) => {
    const [torch, target] = index.columns[number];
    return (!parameters.torch || torch === parameters.torch)
      && (!parameters.device || device(target) === parameters.device || target === parameters.device);
  });
  const counts = new Array(states.length).fill(0);
  const found = []; // [number of the case, cells by column]
  const evidence = columns.map(() => new Array(index.evidence.length).fill(0)); // of the items that are shown
  for (let number = 0; number < index.cases.length; number += 1) {
    const fits = filter(index.lower[number]);
    if (!fits) continue;
    if (parameters.operator && index.operatorOfCase[number] !== parameters.operator) continue;
    const row = index.cells[number];
    let any = false;
    const cells = columns.map((column, place) => {
      const cell = row[column];
      if (!cell || (check && !(cell[3] & check)) || !fits(number, column)) return 0;
      if (parameters.evidence && index.evidence[cell[1]] !== parameters.evidence) return 0;
      counts[cell[0]] += 1;
      if (chosen.size && !chosen.has(String(cell[0]))) return 0;
      any = true;
      evidence[place][cell[1]] += 1;
      return cell;
    });
    if (any) found.push([number, cells]);
  }
  if (parameters.sort === "worst") { // the order of the cases stays within a state
    const worst = new Map(found.map(([number, cells]) => [number, Math.min(...cells.filter(Boolean).map((cell) => cell[0]))]));
    found.sort((one, other) => worst.get(one[0]) - worst.get(other[0]));
  }
  return { columns, counts, evidence, found, chosen };
}

function sumLine(selection) {
  const shown = states.map((_, number) => (selection.chosen.size && !selection.chosen.has(String(number)) ? 0 : selection.counts[number]));
  const total = shown.reduce((sum, count) => sum + count, 0);
  const parts = states.map((state, number) => [state, shown[number]]).filter(([, count]) => count);
  return h("p", { id: "sum", "aria-live": "polite" }, `${plural(total, "item")} = `,
    parts.length ? parts.map(([state, count], number) => [number ? " + " : "", stateTag(state, `${count.toLocaleString("en")} ${state}`)]) : "none");
}

// The names of the columns, and below them how far the items of each were followed.
function headRow(first, selection) {
  const lines = (counts) => counts.map((count, number) => (count ? h("div", {}, `${count.toLocaleString("en")} ${index.evidence[number]}`) : ""));
  return h("thead", {},
    h("tr", {}, h("th", { scope: "col" }, first), selection.columns.map((number) => h("th", { scope: "col" }, columnName(index.columns[number])))),
    h("tr", { class: "evidence" }, h("td", {}, "evidence"), selection.evidence.map((counts) => h("td", {}, lines(counts)))));
}

function operatorTable(selection, parameters) {
  const rows = new Map();
  for (const [number, cells] of selection.found) {
    const name = index.operatorOfCase[number];
    if (!rows.has(name)) rows.set(name, { cases: 0, columns: selection.columns.map(() => new Array(states.length).fill(0)) });
    const row = rows.get(name);
    row.cases += 1;
    cells.forEach((cell, column) => { if (cell) row.columns[column][cell[0]] += 1; });
  }
  const worst = (row) => Math.min(...row.columns.flatMap((counts) => counts.map((count, state) => (count ? state : 99))));
  const sorted = [...rows].sort((one, other) => {
    if (parameters.sort === "worst" && worst(one[1]) !== worst(other[1])) return worst(one[1]) - worst(other[1]);
    if (parameters.sort === "cases" && one[1].cases !== other[1].cases) return other[1].cases - one[1].cases;
    return one[0] < other[0] ? -1 : 1;
  });
  const keep = { q: parameters.q, state: parameters.state, check: parameters.check, evidence: parameters.evidence, torch: parameters.torch };
  return scroll("Operators by targets", h("table", { class: "matrix" }, headRow(plural(sorted.length, "operator"), selection),
    h("tbody", {}, sorted.map(([name, row]) => h("tr", {},
      h("th", { scope: "row" }, h("a", { href: address(`operator/${name}`, keep) }, name), h("span", { class: "soft" }, ` ${row.cases}`)),
      row.columns.map((counts, column) => countCell(counts, address(`operator/${name}`, { ...keep, device: index.columns[selection.columns[column]][1] }), name, selection.columns[column])))))));
}

function countCell(counts, href, name, column) {
  const words = (said) => ({ href, title: said, "aria-label": `${name} on ${columnName(index.columns[column])}: ${said}` });
  return stripedCell(counts, "", (text, said) => h("a", words(said), text));
}

// A cell has a stripe for each of its states, as wide as the share of its items; the worst state is at the left.
function stripedCell(counts, name, content = (text, said) => h("span", { title: `${name}: ${said}` }, text)) {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (!total) return h("td", {}, h("span", { class: "soft" }, "·"));
  const worst = counts.findIndex((count) => count > 0);
  const said = counts.map((count, state) => (count ? `${count} ${states[state]}` : "")).filter(Boolean).join(", ");
  const cell = h("td", { class: classOf(states[worst]) }, content(states[worst] === "passed" ? `${total}` : `${GLYPHS[states[worst]]} ${counts[worst]} / ${total}`, said));
  if (counts[worst] < total) {
    let at = 0;
    const stripes = counts.flatMap((count, state) => {
      if (!count) return [];
      const from = at;
      at = Math.min(100, Math.round(at + Math.max(4, (100 * count) / total)));
      return [`var(--${classOf(states[state])}) ${from}% ${at}%`];
    });
    cell.style.backgroundImage = `linear-gradient(to right, ${stripes.join(", ")})`;
  }
  return cell;
}

// So many rows at first: a filter should answer at once.
const MOST_ROWS = 50;
function caseTable(selection) {
  const body = h("tbody", {});
  let shown = 0;
  const more = h("button", { type: "button", onclick: () => show(MOST_ROWS * 10) });
  const show = (count) => {
    body.append(...caseRows(selection, shown, shown + count));
    shown = Math.min(selection.found.length, shown + count);
    more.hidden = shown === selection.found.length;
    more.textContent = `Show more: ${shown.toLocaleString("en")} of ${plural(selection.found.length, "case")} are shown`;
  };
  show(MOST_ROWS);
  return [scroll("Cases by targets", h("table", { class: "matrix" }, headRow(plural(selection.found.length, "case"), selection), body)), more];
}

function caseRows(selection, from, to) {
  return selection.found.slice(from, to).map(([number, cells]) => {
      const id = index.cases[number];
      return h("tr", {}, h("th", { scope: "row" }, h("a", { href: address(`case/${id}`) }, id)), cells.map((cell, column) => {
        if (!cell) return h("td", {}, h("span", { class: "soft" }, "·"));
        const [torch, target] = index.columns[selection.columns[column]];
        const state = states[cell[0]];
        const text = `${state}, ${index.evidence[cell[1]]}`;
        return h("td", { class: classOf(state) }, h("a", { href: address(`case/${id}`, { target, torch }), title: text, "aria-label": `${id} on ${target}: ${text}` },
          `${GLYPHS[state]} ${index.evidence[cell[1]]}`));
      }));
  });
}

function filterForm(parameters, onChange) {
  const form = document.getElementById("filters").content.cloneNode(true).firstElementChild;
  const torches = [...new Set(index.columns.map((column) => column[0]))];
  const targets = [...new Set(index.columns.map((column) => column[1]))];
  form.elements.q.value = parameters.q || "";
  form.elements.torch.append(option("", "all", parameters.torch), ...torches.map((torch) => option(torch, torch, parameters.torch)));
  const devices = [...new Set(targets.map(device))];
  form.elements.device.append(option("", "all", parameters.device), ...devices.map((name) => option(name, `every ${name}`, parameters.device)), ...targets.map((name) => option(name, name, parameters.device)));
  form.elements.evidence.append(option("", "any", parameters.evidence), ...index.evidence.map((name) => option(name, name, parameters.evidence)));
  const checks = index.checks.filter((_, bit) => index.cells.some((row) => row.some((cell) => cell && cell[3] & (1 << bit))));
  form.elements.check.append(option("", "any or none", parameters.check), ...checks.map((name) => option(name, name, parameters.check)));
  form.elements.sort.value = parameters.sort || "";
  const chosen = new Set((parameters.state || "").split(",").filter(Boolean));
  const occurring = new Set(index.cells.flat().filter(Boolean).map((cell) => cell[0]));
  form.querySelector(".states").append(...states.map((state, number) => (occurring.has(number) || chosen.has(String(number))) && h("label", {}, h("input", { type: "checkbox", name: "state", value: number, checked: chosen.has(String(number)) }), stateTag(state), h("span", { class: "soft count", "data-state": number }))).filter(Boolean));
  const values = () => ({
    q: form.elements.q.value.trim(), torch: form.elements.torch.value, device: form.elements.device.value,
    check: form.elements.check.value, evidence: form.elements.evidence.value, sort: form.elements.sort.value,
    state: [...form.querySelectorAll("[name=state]:checked")].map((box) => box.value).join(","),
  });
  form.addEventListener("input", () => onChange(values()));
  form.addEventListener("submit", (event) => event.preventDefault());
  form.elements.all.addEventListener("click", () => {
    form.querySelectorAll("[name=state]").forEach((box) => { box.checked = false; });
    for (const name of ["q", "torch", "device", "check", "evidence", "sort"]) form.elements[name].value = "";
    onChange(values());
  });
  return form;
}

function isFiltered(values) { return ["q", "state", "check", "evidence"].some((name) => values[name]); }

function matrixPage(parameters, operator) {
  title(operator || (parameters.q ? `“${parameters.q}”` : index.comparison ? "All items" : "What needs someone"));
  const result = h("div", { id: "result" });
  let shown = { q: "", ...parameters };
  const show = (values) => {
    shown = values;
    const selection = select({ ...values, operator });
    trail = selection.found.map(([number]) => index.cases[number]);
    result.replaceChildren(sumLine(selection), ...(operator || !values.q ? [] : otherPages(values.q)), ...(operator ? [] : [operatorTable(selection, values)]),
      ...(operator || isFiltered(values) ? caseTable(selection) : []));
    form.querySelectorAll(".count").forEach((count) => { count.textContent = selection.counts[Number(count.dataset.state)].toLocaleString("en"); });
  };
  const path = operator ? `operator/${operator}` : index.comparison ? "all" : "";
  const form = filterForm(parameters, (values) => {
    history.replaceState(history.state, "", address(path, values));
    show(values);
  });
  const heading = operator ? [h("p", { class: "crumbs" }, h("a", { href: "#/" }, "all operators")), h("h1", {}, operator)]
    : index.comparison ? [h("h1", {}, "All items of both sides")] : [h("h1", {}, "What needs someone"), aboutRuns(), ...needsTable(), h("h2", {}, "Operators by targets")];
  main.replaceChildren(...heading, form, result);
  show(shown);
  if (!searched) Promise.all([unpack("search"), knownBugs()]).then(([data, bugs]) => { searched = data; searchedBugs = bugs; if (shown.q && form.isConnected) show(shown); });
}
