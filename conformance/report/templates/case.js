// A case

async function casePage(id, parameters) {
  const number = index.numberOf.get(id) ?? -1;
  const chunk = number < 0 ? null : await unpack(`operator-${operatorOf(id)}`);
  if (!chunk) return notFound(`The report has no case ${id}.`);
  const row = index.cells[number];
  const details = chunk.cells[id] || {};
  const columns = index.columns.map((_, column) => column).filter((column) => row[column]);
  const fits = (column) => (!parameters.target || index.columns[column][1] === parameters.target) && (!parameters.torch || index.columns[column][0] === parameters.torch) && (!parameters.side || index.columns[column][2] === parameters.side);
  const fitting = columns.some(fits) ? columns.filter(fits) : columns;
  const chosen = fitting.reduce((one, other) => (row[other][0] < row[one][0] ? other : one)); // the worst one
  const [torch, target] = index.columns[chosen];
  title(id, target);
  const tabs = h("nav", { class: "tabs", "aria-label": "Targets of this case" }, columns.map((column) => {
    const state = states[row[column][0]];
    return h("a", { href: address(`case/${id}`, { target: index.columns[column][1], torch: index.columns[column][0], side: index.columns[column][2] }), class: classOf(state), title: `${state}, ${index.evidence[row[column][1]]}`, "aria-current": column === chosen ? "page" : false },
      `${GLYPHS[state]} ${columnName(index.columns[column])}`);
  }));
  main.replaceChildren(h("p", { class: "crumbs" }, h("a", { href: "#/" }, index.comparison ? "what differs" : "what needs someone"), " / ", h("a", { href: address(`operator/${operatorOf(id)}`) }, operatorOf(id)), ...neighbours(id, trail && trail.includes(id) ? trail : index.cases, (other) => address(`case/${other}`, { target, side: index.columns[chosen][2] }))),
    h("h1", {}, id), h("p", { class: "verdict" }, stateTag(states[row[chosen][0]]), ` on ${target}, torch ${torch}`), ladder(row[chosen][1]), tabs,
    ...columnDetails(id, chosen, columns, details, chunk, parameters, await unpack(`explained-${number}-${chosen}`)), ...(await timesOf(id, target)));
}

// The cases that were listed last, for the keys j and k; all cases if none were.
let trail = null;
function neighbours(id, list, href) {
  return [["k", -1, "previous"], ["j", 1, "next"]].flatMap(([key, step, word]) => {
    const other = list.includes(id) ? list[list.indexOf(id) + step] : undefined;
    return other === undefined ? [] : [" · ", h("a", { href: href(other), "data-key": key, title: other }, `${word} (${key})`)];
  });
}

// How far the item was followed, the weakest evidence first.
const RUNGS = { generated: "code generated", compiled: "kernels compiled to binaries", emulated: "run on the CPU", native: "run on the device" };
function ladder(evidence) {
  const reached = index.evidence[evidence];
  if (reached === "none") return h("p", { class: "soft" }, "No code was generated.");
  return h("ol", { class: "ladder", "aria-label": "Evidence" }, Object.entries(RUNGS).map(([name, said]) => h("li", { class: name === reached ? "reached" : "", "aria-current": name === reached ? "step" : false }, name === reached ? `✓ ${said}` : said)));
}

function columnDetails(id, column, columns, details, chunk, parameters, explanation) {
  const detail = details[column];
  const [torch, target] = index.columns[column];
  const source = chunk.sources[id] === undefined ? [] : [h("h2", {}, "The case"), h("pre", { class: "code", tabindex: 0, html: chunk.parts[chunk.sources[id]] })];
  if (!detail) return [h("p", {}, `On ${target} with torch ${torch}, this case was selected and did not run.`), ...source];
  const parts = detail.text.map((part) => chunk.parts[part]);
  const facts = parts.length ? parts[0] : null;
  const about = [["captured", detail.mode], ["torch", detail.torch]];
  if (detail.seconds) about.push(["compiled in", `${detail.seconds} s`]);
  if (detail.shared_with) about.push(["capture", `shared with ${detail.shared_with}`]);
  if (detail.reused) about.push(["numerics", detail.reused]);
  if (detail.needs_fp64) about.push(["double precision", detail.needs_fp64]);
  const lines = [
    h("dl", { class: "about" }, Object.entries(detail.checks).map(([name, [outcome, text]]) => [h("dt", {}, name), h("dd", {}, h("strong", {}, outcome), text ? `: ${text}` : "")]),
      about.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
  ];
  for (const [name, text] of Object.entries(detail.messages || {})) {
    if (name !== "code" || !detail.before) lines.push(h("h2", {}, `Why ${name} failed`), h("pre", { class: "code wrap", tabindex: 0 }, text));
  }
  if (detail.before && !parameters.with) lines.push(h("h2", {}, "What changed"), compared(detail.before, detail.text, index.comparison ? "A" : "before", columnName(index.columns[column]), chunk));
  lines.push(...source, ...errorsOf(column, columns, details), ...sinceWhen(id, column, columns, details, chunk));
  if (facts !== null) lines.push(h("h2", {}, `Facts on ${target}`), h("pre", { class: "code wrap", tabindex: 0, html: facts }));
  if (explanation) lines.push(h("h2", { id: "kernels" }, "Why these kernels"), ...explained(explanation, parameters.line, (line) => address(`case/${id}`, { target, torch, side: index.columns[column][2], line })));
  for (const missed of detail.missed || []) lines.push(h("h2", {}, `Missed optimisation: ${missed.fact}`), h("p", {}, `wanted ${missed.wanted}, got ${missed.got}. ${missed.reason}`), h("p", { class: "soft" }, missed.judgement));
  if (detail.problems) lines.push(h("h2", {}, "Wrong numerics that a known failure excuses"), problemList(detail.problems));
  for (const [name, heading] of [["binaries", "Binaries"], ["shortfalls", "Kernels that ran little in the emulation"], ["notices", "Notices"]]) {
    if (detail[name]) lines.push(h("h2", {}, heading), h("pre", { class: "code wrap", tabindex: 0 }, detail[name].join("\n")));
  }
  if (detail.commands) lines.push(h("h2", {}, "Commands"), h("p", { class: "soft" }, "In the folder of the project, with the options of this run."),
    ...Object.entries(detail.commands).map(([said, command]) => h("div", { class: "command" }, h("h3", {}, said), copyBlock(command))));
  if (detail.artifacts) lines.push(h("h2", {}, "Graphs and IR of the failure"), ...Object.entries(detail.artifacts).map(([name, text]) => h("details", {}, h("summary", {}, name), h("pre", { class: "code", tabindex: 0 }, text))));
  if (detail.script) {
    const run = index.runs[index.cells[index.numberOf.get(id)][column][2]];
    lines.push(h("h2", {}, "Reproduction"), copyBlock(detail.script), h("p", { class: "soft" }, `reproduce.py, with its inputs, is in failures/${id}-${target} of the run${run ? ` ${run.name}` : ""}.`));
  }
  lines.push(...codeOf(id, column, columns, details, chunk, parameters));
  return lines;
}

// The numerics as pictures; of the target whose code is the same and ran, if this one did not run.
function errorsOf(column, columns, details) {
  const detail = details[column], [torch, target] = index.columns[column];
  const from = detail.error_profiles ? column : columns.find((other) => index.columns[other][0] === torch && index.columns[other][1] === detail.shared_with);
  const profiles = from === undefined ? null : (details[from] || {}).error_profiles;
  if (!profiles) return [];
  const pictures = errorPictures(profiles);
  const whose = from === column ? "" : `The code is that of ${detail.shared_with}, which ran in place of ${target}.`;
  return [h("h2", {}, "Errors, by the magnitude of the result"), whose ? h("p", { class: "soft" }, whose) : null, ...pictures].filter(Boolean);
}

function problemList(problems) {
  return h("ul", { class: "problems" }, problems.map((problem) => h("li", {}, h("strong", {}, problemTitle(problem)), h("pre", { class: "code wrap", tabindex: 0 }, problem.text))));
}

function problemTitle(problem) {
  const values = problem.wrong_values;
  if (!values) return `Call "${problem.call}": ${problem.rule}`;
  const changes = Object.entries(values.changes).map(([change, count]) => `${count} × ${change}`).join(", ");
  return `Call "${problem.call}", ${problem.tensor}: ${changes}, which is ${(100 * values.share).toPrecision(2)} % of the elements; the largest error is ${problem.error} ulp`;
}

// Since which torch release the state, the facts and the code are what they are.
function sinceWhen(id, column, columns, details, chunk) {
  const target = index.columns[column][1];
  const releases = columns.filter((other) => index.columns[other][1] === target && details[other]).map((other) => index.columns[other][0]);
  if (releases.length < 2) return [];
  const steps = (chunk.history[id] || []).filter((step) => step.target === target);
  const lines = [h("h2", {}, "Since when")];
  const unstored = columns.filter((other) => index.columns[other][1] === target && states[index.cells[index.numberOf.get(id)][other][0]] === "not stored").map((other) => index.columns[other][0]);
  if (unstored.length) lines.push(h("p", {}, `Nothing is stored for torch ${unstored.join(", ")}, so its state is not compared.`));
  if (!steps.length) return [...lines, h("p", {}, `${unstored.length ? "Facts" : "State, facts"} and code are the same on torch ${releases.join(", ")}.`)];
  const rows = steps.flatMap((step) => [
    step.state ? ["state", ...step.state] : null, ...Object.entries(step.facts).map(([name, both]) => [name, ...both]),
  ].filter(Boolean).map((row) => [step, ...row]));
  if (rows.length) lines.push(scroll("What changed between torch releases", h("table", { class: "since" }, h("thead", {}, h("tr", {}, ["since torch", "what", "before", "now"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, rows.map(([step, name, before, now]) => h("tr", {}, h("th", { scope: "row" }, step.torch), h("td", {}, name), h("td", { class: "gone" }, before || "none"), h("td", { class: "come" }, now || "none")))))));
  const coded = steps.filter((step) => step.code);
  if (coded.length) lines.push(h("p", {}, "The code changed: ", coded.map((step, number) => [number ? ", " : "", h("a", { href: address(`case/${id}`, { target, torch: step.torch, with: `${step.before} ${target}` }) }, `${step.before} → ${step.torch}`)]), "."));
  return lines;
}

function codeOf(id, column, columns, details, chunk, parameters) {
  const detail = details[column];
  if (!detail.text.length) return [];
  const [torch, target] = index.columns[column];
  const others = columns.filter((other) => other !== column && details[other] && details[other].text.length);
  const choice = h("select", { onchange: (event) => { location.hash = address(`case/${id}`, { target, torch, side: index.columns[column][2], with: event.target.value }); } },
    option("", "nothing", parameters.with || ""), detail.before ? option("before", "its text before the change", parameters.with) : null,
    others.map((other) => option(index.columns[other].join(" ").trim(), `${index.columns[other][1]}, torch ${index.columns[other].filter((_, part) => part !== 1).join(" ").trim()}`, parameters.with)));
  const heading = [h("h2", { id: "code" }, `Code for ${target}`), h("p", {}, h("label", {}, "Side by side with ", choice))];
  const other = columns.find((each) => index.columns[each].join(" ").trim() === parameters.with);
  const second = parameters.with === "before" ? detail.before : other !== undefined && details[other] ? details[other].text : null;
  if (!second) return [...heading, h("pre", { class: "code", tabindex: 0, html: detail.text.slice(1).map((part) => chunk.parts[part]).join("\n\n") })];
  const name = parameters.with === "before" ? "before" : columnName(index.columns[other]);
  return [...heading, compared(second, detail.text, name, columnName(index.columns[column]), chunk)];
}

function compared(before, after, beforeName, afterName, chunk) {
  const [one, other] = [before, after].map((parts) => parts.map((part) => chunk.parts[part]).join("\n\n").split("\n"));
  return sideBySide(one, other, beforeName, afterName);
}
