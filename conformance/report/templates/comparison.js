// Two sides: what differs, regressions first

const KINDS = { regression: "Regressions", mend: "Mends", difference: "Other differences" };

async function comparisonPage(parameters) {
  title("What differs");
  const { rows, equal, alone } = index.comparison, times = await comparedTimes();
  const result = h("div", {}), field = h("input", { name: "q", type: "search", autocomplete: "off", value: parameters.q || "" });
  const show = () => {
    const fits = caseFilter(field.value);
    const found = rows.filter((row) => fits(`${row.case} ${row.columns[1][1]} ${row.facts.join(" ")}`.toLowerCase()));
    trail = [...new Set(found.map((row) => row.case))];
    result.replaceChildren(h("p", { id: "sum", "aria-live": "polite" }, `${plural(equal + rows.length, "pair")}: ${equal.toLocaleString("en")} equal, ${Object.entries(KINDS).map(([kind, name]) => `${found.filter((row) => row.kind === kind).length} ${name.toLowerCase()}`).join(", ")}${alone ? `; ${plural(alone, "item")} without a result on both sides` : ""}`),
      ...Object.entries(KINDS).flatMap(([kind, name]) => kindTable(name, found.filter((row) => row.kind === kind), times)));
  };
  const form = h("form", { class: "filters", role: "search", "aria-label": "Filter the differences" }, h("label", { class: "grow" }, "Search cases, targets and facts (key /)", field));
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", () => { history.replaceState(history.state, "", address("", { q: field.value })); show(); });
  main.replaceChildren(h("h1", {}, "What differs from A to B"), aboutRuns(), form, result);
  show();
}

function kindTable(name, rows, times) {
  if (!rows.length) return [];
  const body = h("tbody", {}), more = h("button", { type: "button", onclick: () => show() });
  let shown = 0;
  const show = () => {
    body.append(...rows.slice(shown, shown + MOST_ROWS).map((row) => differenceRow(row, times)));
    shown = Math.min(rows.length, shown + MOST_ROWS);
    more.hidden = shown === rows.length;
    more.textContent = `Show more: ${shown} of ${rows.length} are shown`;
  };
  show();
  return [h("h2", {}, `${name} (${rows.length})`), scroll(name, h("table", { class: "differences stacked" }, h("thead", {}, h("tr", {}, ["case", "A", "B", "code and facts", "memory", "time"].map((head) => h("th", { scope: "col" }, head)))), body)), more];
}

function differenceRow(row, times) {
  const [[torchA, targetA], [torch, target]] = row.columns;
  const pair = ([one, other], unit = "") => `${one.toLocaleString("en")} → ${other.toLocaleString("en")}${unit}`;
  const measured = times.get(`${row.case} ${target}`), { kernels, ...memory } = row.measures;
  const what = [row.code ? "code" : "", ...row.facts.map((name) => (name === "kernels" && kernels ? `kernels ${pair(kernels)}` : name))].filter(Boolean).join(", ");
  return h("tr", {}, h("th", { scope: "row" }, h("a", { href: address(`case/${row.case}`, { target, torch, side: "B", with: row.code || row.facts.length ? [torchA, targetA, "A"].join(" ") : "" }) }, row.case), h("span", { class: "soft" }, ` ${targetA === target ? target : `${targetA} → ${target}`}`)),
    h("td", { "data-label": "A" }, stateTag(states[row.states[0]])), h("td", { "data-label": "B" }, stateTag(states[row.states[1]])), h("td", {}, what),
    h("td", {}, Object.entries(memory).map(([name, both]) => `${name} ${pair(both)}`).join(", ")),
    h("td", {}, [measured ? `runs ${pair(measured.map((time) => Number(time.toPrecision(3))), " µs")}` : "", row.seconds[0] !== row.seconds[1] ? `compiles ${pair(row.seconds, " s")}` : ""].filter(Boolean).join(", ")));
}

// Case and target → the times of the compiled function, if `--bench` gave two files.
async function comparedTimes() {
  const { measurements } = (await unpack("section-times")) || { measurements: [] };
  if (measurements.length < 2) return new Map();
  const [one, other] = measurements.map((each) => new Map(each.rows.map((row) => [`${row.case} ${each.about.target}`, row.compiled])));
  return new Map([...other].filter(([name]) => one.has(name)).map(([name, time]) => [name, [one.get(name), time]]));
}
