// What runs gave over time

function timelinePage({ runs, rows }) {
  title("History");
  const names = runs.map((run) => h("th", { scope: "col", title: `${run.run}; options ${run.options}` }, run.time.slice(0, 10), h("div", { class: "soft" }, run.torch.split(/[,+]/)[0]), run.options === "none" ? null : h("div", { class: "soft" }, "with options")));
  main.replaceChildren(h("h1", {}, "History"), h("p", {}, `${plural(runs.length, "run")}. ${rows.length ? "Operators and targets that needed someone in one of them:" : "No operator needed anyone."}`),
    rows.length ? scroll("Operators over time", h("table", { class: "matrix" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "operator and target"), h("th", { scope: "col" }, "bad since"), names)),
      h("tbody", {}, rows.map((row) => h("tr", {}, h("th", { scope: "row" }, `${row.operator} `, h("span", { class: "soft" }, row.target)), h("td", { class: "bad" }, row.bad ? badSince(row.bad, runs) : ""), row.runs.map((counts, run) => stripedCell(index.states.map((state) => counts[state] || 0), `${row.operator} on ${row.target}, ${runs[run].time}`))))))) : "");
}

function badSince(bad, runs) {
  const some = bad.cases.slice(0, 3), more = bad.cases.length - some.length;
  return [h("div", {}, stateTag(bad.state), ` ${runs[bad.run].time.slice(0, 10)}, ${runs[bad.run].run}`),
    h("div", { class: "soft" }, some.flatMap((name, number) => [number ? ", " : "", index.numberOf.has(name) ? h("a", { href: address(`case/${name}`) }, name) : name]), more > 0 ? ` and ${more} more` : ""),
    bad.bisect ? copyBlock(bad.bisect) : null];
}
