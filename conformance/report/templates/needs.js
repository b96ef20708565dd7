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

function needRow(need, number) {
  const href = need.change ? address(`change/${need.change}`) : address(`need/${index.needs.indexOf(need)}`);
  return h("tr", {}, h("td", {}, stateTag(states[need.state])), h("th", { scope: "row" }, h("a", { href }, withCode(need.title))), h("td", { class: "soft" }, need.reach));
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
// What a search finds beside items: causes and pages.
function otherPages(text) {
  const words = text.toLowerCase().split(/\s+/).filter((word) => word && !word.startsWith("-"));
  const has = (said) => words.length && words.every((word) => said.toLowerCase().includes(word));
  const found = [
    ...index.needs.filter((need) => has(need.title)).map((need) => h("li", {}, stateTag(states[need.state]), " ", h("a", { href: need.change ? address(`change/${need.change}`) : address(`need/${index.needs.indexOf(need)}`) }, withCode(need.title)))),
    ...(words.length ? searchedBugs : []).filter((bug) => bugHas(bug, words.join(" "))).map((bug) => h("li", {}, "known bug: ", h("a", { href: address(`bug/${bug.id}`) }, withCode(bug.title)))),
  ];
  return found.length ? [h("h2", {}, "Causes and known bugs"), h("ul", { id: "found" }, found.slice(0, 20))] : [];
}
