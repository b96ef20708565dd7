// Known bugs: a table with filters, and a page for each

async function knownBugs() { return ((await unpack("section-known-bugs")) || { bugs: [] }).bugs; }

// The name of a filter → the values of a bug for it.
const BUG_FILTERS = { operator: (bug) => bug.operators, device: (bug) => bug.devices, torch: (bug) => bug.torch, severity: (bug) => [bug.severity], upstream: (bug) => [isReported(bug) ? "reported" : "not reported"] };
function isReported(bug) { return bug.upstream.some((issue) => issue.startsWith("http")); }

function bugHas(bug, text) {
  const said = [bug.id, bug.title, ...bug.operators, ...bug.cases, ...bug.upstream, bug.script].join(" ").toLowerCase();
  return text.toLowerCase().split(/\s+/).filter(Boolean).every((word) => said.includes(word));
}

function bugsPage(bugs, parameters) {
  const result = h("div", {}), choices = Object.entries(BUG_FILTERS).map(([name, values]) => {
    const known = [...new Set(bugs.flatMap(values))];
    return [name, name === "severity" || name === "torch" ? known : known.sort()];
  });
  const show = (values) => {
    const found = bugs.filter((bug) => bugHas(bug, values.q || "") && Object.entries(BUG_FILTERS).every(([name, of]) => !values[name] || of(bug).includes(values[name])));
    trail = found.map((bug) => bug.id);
    result.replaceChildren(h("p", { id: "sum", "aria-live": "polite" }, `${plural(found.length, "bug")} of ${bugs.length}`),
      scroll("Known bugs", h("table", { class: "bugs stacked" }, h("thead", {}, h("tr", {}, ["bug", "severity", "torch", "devices", "upstream", "cases"].map((name) => h("th", { scope: "col" }, name)))),
        h("tbody", {}, found.map((bug) => h("tr", {}, h("th", { scope: "row" }, h("a", { href: address(`bug/${bug.id}`) }, withCode(bug.title))), h("td", {}, bug.severity), h("td", { "data-label": "torch" }, bug.torch.join(", ")),
          h("td", { "data-label": "devices" }, bug.devices.join(", ")), h("td", {}, bug.upstream.map(issueLink)), h("td", { "data-label": "cases" }, String(bug.cases.length))))))));
  };
  const form = choiceForm("Search titles, scripts, cases and issues (key /)", choices, parameters, "page/known-bugs", show);
  main.replaceChildren(h("h1", {}, "Known bugs"), h("p", { class: "soft" }, "Each script needs only torch. While the bug is there, it ends with an AssertionError, or with the error that the known failure names. The severity is computed from what the known failures excuse."), form, result);
  show(parameters);
}

function issueLink(issue) {
  const number = /^https:\/\/github.com\/pytorch\/pytorch\/(?:issues|pull)\/(\d+)/.exec(issue);
  return /^https?:\/\//.test(issue) ? [h("a", { href: issue }, number ? `#${number[1]}` : issue), " "] : issue;
}

async function bugPage(id) {
  const bug = (await knownBugs()).find((each) => each.id === id);
  if (!bug) return notFound(`The report has no bug ${id}.`);
  title(bug.title);
  const about = [["severity", bug.severity], ["upstream", bug.upstream.map(issueLink)], ["torch", bug.versions.join(" or ")], ["targets", bug.targets.join(", ")], bug.options.length && ["with", bug.options.join(", ")]];
  if (bug.triage) {
    if (bug.triage.since) about.push(["since", `torch ${bug.triage.since}`]);
    about.push(["right", [`${bug.triage.right}. ${bug.triage.because} `, bug.triage.source && h("a", { href: bug.triage.source }, "source")]], ["searched", h("a", { href: bug.triage.search }, bug.triage.searched)]);
  }
  const cases = bug.cases.map((name) => h("li", {}, index.numberOf.has(name) ? h("a", { href: address(`case/${name}`) }, name) : h("code", {}, name)));
  main.replaceChildren(h("p", { class: "crumbs" }, h("a", { href: "#/page/known-bugs" }, "known bugs"), ...neighbours(id, trail || [], (other) => address(`bug/${other}`))), h("h1", {}, withCode(bug.title)),
    h("dl", { class: "about" }, about.filter(Boolean).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
    ...(bug.script ? [h("h2", {}, "Script"), copyBlock(bug.script)] : [h("p", {}, "No script: only older versions have it, or only a device or the generated code shows it.")]),
    h("h2", {}, `Found by ${plural(cases.length, "case")}`), h("ul", {}, cases));
}
