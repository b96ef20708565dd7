// Times

function bar(microseconds, most, name) {
  const filled = h("span", { class: `fill ${name}` });
  filled.style.width = `${Math.max(0.5, (100 * microseconds) / most)}%`;
  return h("span", { class: "timebar", title: name }, filled, h("span", { class: "value" }, `${name} ${microseconds.toPrecision(3)} µs`));
}

// The times of one case, as bars, if `--bench` gave some of its target.
async function timesOf(id, target) {
  const { measurements } = (await unpack("section-times")) || { measurements: [] };
  return measurements.filter((each) => each.about.target === target).flatMap(({ about, rows }) => rows.filter((row) => row.case === id).flatMap((row) => {
    const most = Math.max(row.eager, row.compiled, row.limit);
    return [h("h2", {}, `Times on ${about.processor}, torch ${about.torch}`), h("div", { class: "bars" }, ["eager", "compiled", "limit"].map((name) => bar(row[name], most, name))), row.why.length ? h("p", {}, `Why slower: ${row.why.join("; ")}`) : null].filter(Boolean);
  }));
}

function timesPage(measurements) {
  const [first, second] = measurements;
  const before = second ? new Map(first.rows.map((row) => [row.case, row])) : new Map();
  const shown = second || first;
  const aboutLines = measurements.map((each) => h("p", { class: "soft" }, `${each.about.target} (${each.about.processor}), torch ${each.about.torch}, ${each.about.threads} thread(s): ${each.about.command}`));
  const rows = [...shown.rows].sort((one, other) => other.compiled / other.eager - one.compiled / one.eager);
  main.replaceChildren(h("h1", {}, "Times: eager, compiled, and the limit"), ...aboutLines,
    h("p", {}, "The limit is the time of a copy of the least bytes, or of the least operations. The slowest ones relative to eager come first."),
    scroll("Times of all cases", h("table", { class: "times" }, h("thead", {}, h("tr", {}, ["case", "times", "eager / compiled", ...(second ? ["compiled, old / new"] : []), "why slower"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, rows.map((row) => {
        const old = before.get(row.case);
        const most = Math.max(row.eager, row.compiled, row.limit, old ? old.compiled : 0);
        return h("tr", {}, h("th", { scope: "row" }, index.numberOf.has(row.case) ? h("a", { href: address(`case/${row.case}`) }, row.case) : row.case),
          h("td", { class: "bars" }, bar(row.eager, most, "eager"), old ? bar(old.compiled, most, "compiled before") : null, bar(row.compiled, most, "compiled"), bar(row.limit, most, "limit")),
          h("td", {}, h("span", { class: row.slower ? "tag s-wrong-values" : "" }, (row.eager / row.compiled).toFixed(2))),
          second ? h("td", {}, old ? (old.compiled / row.compiled).toFixed(2) : "new") : null, h("td", {}, row.why.join("; ")));
      })))));
}

function runsPage() {
  title("Runs");
  main.replaceChildren(h("h1", {}, "Runs"), ...index.runs.map((run) => h("section", {}, h("h2", {}, run.name), h("dl", { class: "about" },
    Object.entries(run).filter(([name]) => name !== "name").map(([name, value]) => [h("dt", {}, name), h("dd", {}, typeof value === "string" ? value : Array.isArray(value) ? value.join(", ") : JSON.stringify(value))])))),
    index.replaced ? h("p", {}, `${plural(index.replaced, "item")} occurred in two runs: the report shows the one with the stronger evidence.`) : "");
}

function notFound(message) {
  title("Not in this report");
  main.replaceChildren(h("h1", {}, "Not in this report"), h("p", {}, message), h("p", {}, h("a", { href: "#/" }, "All operators")));
}
