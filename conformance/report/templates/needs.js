// What needs someone, and what each run was

const MOST_NEEDS = 8;

function aboutRuns() {
  const names = Object.keys(index.about[0] || {});
  const rows = index.about.map((run, number) => h("tr", {}, names.map((name, place) => h(place ? "td" : "th", { scope: place ? false : "row", "data-label": name }, index.comparison && !place ? index.comparison.sides[number] : run[name]))));
  return scroll("The runs", h("table", { class: "about-runs stacked" }, h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, rows)));
}

function needsTable() {
  if (!index.needs.length) return [h("p", { id: "needs" }, "Nothing: no check fails, and every item ran.")];
  const body = h("tbody", {}, index.needs.slice(0, MOST_NEEDS).map(needRow));
  const more = index.needs.length > MOST_NEEDS && h("button", { type: "button", onclick: () => { body.append(...index.needs.slice(MOST_NEEDS).map(needRow)); more.remove(); } },
    `Show ${plural(index.needs.length - MOST_NEEDS, "more cause")}`);
  return [h("table", { id: "needs", class: "needs stacked" }, h("thead", {}, h("tr", {}, ["state", "cause", "where"].map((name) => h("th", { scope: "col" }, name)))), body), more || ""];
}

function needRow(need) {
  return h("tr", {}, h("td", {}, stateTag(states[need.state])), h("th", { scope: "row" }, h("a", { href: needAddress(need) }, withCode(need.title))), h("td", { class: "soft" }, need.reach));
}

// The items of one cause.
function needPage(number) {
  const need = index.needs[Number(number)];
  if (!need) return notFound(`The report has no cause ${number}.`);
  title(states[need.state], need.title);
  trail = [...new Set(need.items.map(([id]) => id))];
  main.replaceChildren(h("p", { class: "crumbs" }, h("a", { href: "#/" }, "what needs someone")), h("h1", {}, stateTag(states[need.state]), " ", withCode(need.title)), h("p", {}, need.reach),
    h("ul", {}, need.items.map(([id, torch, target]) => h("li", {}, h("a", { href: address(`case/${id}`, { target, torch }) }, `${id} on ${target}`), severalTorches() ? h("span", { class: "soft" }, ` torch ${torch}`) : null))));
}

let searchedBugs = [];
const MOST_FOUND = 6;
// What a search finds beside items: causes and known bugs.
function otherPages(text) {
  const fits = caseFilter(text);
  if (!filterWords(text).wanted.length) return [];
  const needs = index.needs.filter((need) => fits(`${states[need.state]} ${need.title}`.toLowerCase()));
  const bugs = searchedBugs.filter((bug) => fits([bug.id, bug.title, ...bug.upstream].join(" ").toLowerCase()));
  const found = [...needs.map((need) => [stateTag(states[need.state]), " ", h("a", { href: needAddress(need) }, withCode(need.title))]),
    ...bugs.map((bug) => ["known bug: ", h("a", { href: address(`bug/${bug.id}`) }, withCode(bug.title))])];
  if (!found.length) return [];
  const more = found.length > MOST_FOUND && h("li", {}, h("a", { href: address("page/known-bugs", { q: text }) }, `and ${found.length - MOST_FOUND} more`));
  return [h("ul", { id: "found", "aria-label": "Causes and known bugs" }, found.slice(0, MOST_FOUND).map((line) => h("li", {}, line)), more)];
}
function needAddress(need) { return need.change ? address(`change/${need.change}`) : address(`need/${index.needs.indexOf(need)}`); }
