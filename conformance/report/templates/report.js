"use strict";
(() => {
// ---- elements and data

// All texts from outside go through textContent. Only Pygments' output is set as HTML: Pygments escapes what it colours.
function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "html") element.innerHTML = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const unpacked = new Map();
function unpack(name) {
  if (!unpacked.has(name)) unpacked.set(name, read(name));
  return unpacked.get(name);
}
async function read(name) {
  const element = document.getElementById(`data-${name}`);
  if (!element) return null;
  const bytes = Uint8Array.from(atob(element.textContent.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

const main = document.getElementById("main");
const GLYPHS = { passed: "✓", failed: "✗", "not run": "∅", "cannot run": "?", "known failures": "!",
  "with missed optimisations": "~", excluded: "–" };
const CLASSES = { passed: "passed", failed: "failed", "not run": "notrun", "cannot run": "cannot",
  "known failures": "known", "with missed optimisations": "missed", excluded: "excluded" };
let index, states, operators, operatorOf;

function device(target) { return target.split("_")[0]; }
function plural(count, word) { return `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`; }
function columnName(column) { return severalTorches() ? `${column[1]} ${column[0]}` : column[1]; }
function severalTorches() { return new Set(index.columns.map((column) => column[0])).size > 1; }
function address(path, parameters = {}) {
  const words = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== "" && value !== undefined));
  return `#/${path}${words.size ? `?${words}` : ""}`;
}
function stateTag(state, text) {
  return h("span", { class: `tag s-${CLASSES[state]}` }, `${GLYPHS[state]} ${text || index.states[state]}`);
}
function option(value, text, chosen) { return h("option", { value, selected: value === chosen }, text); }
function copyBlock(text) {
  const block = document.getElementById("copy").content.cloneNode(true).firstElementChild;
  block.querySelector("pre").textContent = text;
  block.querySelector("pre").tabIndex = 0;
  const button = block.querySelector("button");
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  return block;
}
function scroll(label, ...children) { return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, children); }

// ---- the matrix

// The words of a filter: each has to occur in the case's id; a word after "-" must not.
function caseFilter(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = words.filter((word) => !word.startsWith("-"));
  const unwanted = words.filter((word) => word.startsWith("-") && word.length > 1).map((word) => word.slice(1));
  return (id) => wanted.every((word) => id.includes(word)) && !unwanted.some((word) => id.includes(word));
}

function select(parameters) {
  const fits = caseFilter(parameters.q || "");
  const chosen = new Set((parameters.state || "").split(",").filter(Boolean));
  const columns = index.columns.map((_, number) => number).filter((number) => {
    const [torch, target] = index.columns[number];
    return (!parameters.torch || torch === parameters.torch)
      && (!parameters.device || device(target) === parameters.device || target === parameters.device);
  });
  const counts = new Array(states.length).fill(0);
  const found = []; // [number of the case, cells by column]
  for (let number = 0; number < index.cases.length; number += 1) {
    if (!fits(index.lower[number])) continue;
    if (parameters.operator && index.operatorOfCase[number] !== parameters.operator) continue;
    const row = index.cells[number];
    let any = false;
    const cells = columns.map((column) => {
      const cell = row[column];
      if (!cell) return 0;
      if (parameters.evidence && index.evidence[cell[1]] !== parameters.evidence) return 0;
      counts[cell[0]] += 1;
      if (chosen.size && !chosen.has(String(cell[0]))) return 0;
      any = true;
      return cell;
    });
    if (any) found.push([number, cells]);
  }
  return { columns, counts, found, chosen };
}

function sumLine(selection) {
  const shown = states.map((_, number) => (selection.chosen.size && !selection.chosen.has(String(number)) ? 0 : selection.counts[number]));
  const total = shown.reduce((sum, count) => sum + count, 0);
  const parts = states.map((state, number) => [state, shown[number]]).filter(([, count]) => count);
  return h("p", { id: "sum", "aria-live": "polite" }, `${plural(total, "item")} = `,
    parts.length ? parts.map(([state, count], number) => [number ? " + " : "", stateTag(state, `${count.toLocaleString("en")} ${index.states[state]}`)]) : "none");
}

function headRow(first, columns) {
  return h("thead", {}, h("tr", {}, h("th", { scope: "col" }, first), columns.map((number) => h("th", { scope: "col" }, columnName(index.columns[number])))));
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
  const keep = { q: parameters.q, state: parameters.state, evidence: parameters.evidence, torch: parameters.torch };
  return scroll("Operators by targets", h("table", { class: "matrix" }, headRow(`${plural(sorted.length, "operator")}`, selection.columns),
    h("tbody", {}, sorted.map(([name, row]) => h("tr", {},
      h("th", { scope: "row" }, h("a", { href: address(`operator/${name}`, keep) }, name), h("span", { class: "soft" }, ` ${row.cases}`)),
      row.columns.map((counts, column) => countCell(counts, address(`operator/${name}`, { ...keep, device: index.columns[selection.columns[column]][1] }), name, selection.columns[column])))))));
}

function countCell(counts, href, name, column) {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (!total) return h("td", {}, h("span", { class: "soft" }, "·"));
  const worst = counts.findIndex((count) => count > 0);
  const words = counts.map((count, state) => (count ? `${count} ${index.states[states[state]]}` : "")).filter(Boolean).join(", ");
  const texts = states[worst] === "passed" || states[worst] === "excluded" ? `${total}` : `${GLYPHS[states[worst]]}${counts[worst]} / ${total}`;
  return h("td", { class: `s-${CLASSES[states[worst]]}` }, h("a", { href, title: words, "aria-label": `${name} on ${columnName(index.columns[column])}: ${words}` }, texts));
}

const MOST_ROWS = 400;
function caseTable(selection, parameters) {
  const rows = selection.found.slice(0, MOST_ROWS);
  const more = selection.found.length - rows.length;
  return [
    scroll("Cases by targets", h("table", { class: "matrix" }, headRow(plural(selection.found.length, "case"), selection.columns), h("tbody", {}, rows.map(([number, cells]) => {
      const id = index.cases[number];
      return h("tr", {}, h("th", { scope: "row" }, h("a", { href: address(`case/${id}`) }, id)), cells.map((cell, column) => {
        if (!cell) return h("td", {}, h("span", { class: "soft" }, "·"));
        const [torch, target] = index.columns[selection.columns[column]];
        const state = states[cell[0]];
        const text = `${index.states[state]}, ${index.evidence[cell[1]]}`;
        return h("td", { class: `s-${CLASSES[state]}` }, h("a", { href: address(`case/${id}`, { target, torch }), title: text, "aria-label": `${id} on ${target}: ${text}` },
          `${GLYPHS[state]} ${index.evidence[cell[1]]}`));
      }));
    })))),
    more > 0 ? h("p", { class: "soft" }, `${plural(more, "more case")}: filter to see them.`) : null,
  ];
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
  form.elements.sort.value = parameters.sort || "";
  const chosen = new Set((parameters.state || "").split(",").filter(Boolean));
  form.querySelector(".states").append(...states.map((state, number) => h("label", {}, h("input", { type: "checkbox", name: "state", value: number, checked: chosen.has(String(number)) }), stateTag(state), h("span", { class: "soft count", "data-state": number }))));
  const values = () => ({
    q: form.elements.q.value.trim(), torch: form.elements.torch.value, device: form.elements.device.value,
    evidence: form.elements.evidence.value, sort: form.elements.sort.value,
    state: [...form.querySelectorAll("[name=state]:checked")].map((box) => box.value).join(","),
  });
  form.addEventListener("input", () => onChange(values()));
  form.addEventListener("submit", (event) => event.preventDefault());
  form.elements.all.addEventListener("click", () => {
    form.querySelectorAll("[name=state]").forEach((box) => { box.checked = false; });
    for (const name of ["q", "torch", "device", "evidence", "sort"]) form.elements[name].value = "";
    onChange(values());
  });
  return form;
}

function matrixPage(parameters, operator) {
  const result = h("div", { id: "result" });
  const show = (values) => {
    const selection = select({ ...values, operator });
    result.replaceChildren(sumLine(selection), ...(operator ? [] : [operatorTable(selection, values)]),
      ...(operator || values.q || values.state || values.evidence ? caseTable(selection, values).filter(Boolean) : []));
    form.querySelectorAll(".count").forEach((count) => { count.textContent = selection.counts[Number(count.dataset.state)].toLocaleString("en"); });
  };
  const path = operator ? `operator/${operator}` : "";
  const form = filterForm(parameters, (values) => {
    history.replaceState(null, "", address(path, values));
    show(values);
  });
  const heading = operator ? [h("p", { class: "crumbs" }, h("a", { href: "#/" }, "all operators")), h("h1", {}, operator)] : [h("h1", {}, "Operators by targets")];
  main.replaceChildren(...heading, form, result);
  show({ q: "", ...parameters });
}

// ---- a case

async function casePage(id, parameters) {
  const number = index.numberOf.get(id) ?? -1;
  const chunk = number < 0 ? null : await unpack(`operator-${operatorOf(id)}`);
  if (!chunk) return notFound(`The report has no case ${id}.`);
  const row = index.cells[number];
  const details = chunk.cells[id] || {};
  const columns = index.columns.map((_, column) => column).filter((column) => row[column]);
  const fits = (column) => (!parameters.target || index.columns[column][1] === parameters.target) && (!parameters.torch || index.columns[column][0] === parameters.torch);
  const chosen = columns.find(fits) ?? columns[0];
  const table = scroll("Targets of this case", h("table", {}, h("thead", {}, h("tr", {}, ["target", "torch", "state", "evidence", "checks"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, columns.map((column) => {
      const [torch, target] = index.columns[column];
      const [state, evidence] = row[column];
      const checks = Object.entries((details[column] || {}).checks || {}).map(([name, [outcome]]) => `${name} ${outcome}`).join(", ");
      return h("tr", { "aria-current": column === chosen ? "true" : false }, h("th", { scope: "row" }, h("a", { href: address(`case/${id}`, { target, torch }), "aria-current": column === chosen ? "page" : false }, target, column === chosen ? " ◂" : "")),
        h("td", {}, torch), h("td", {}, stateTag(states[state])), h("td", {}, index.evidence[evidence]), h("td", {}, checks));
    }))));
  main.replaceChildren(h("p", { class: "crumbs" }, h("a", { href: "#/" }, "all operators"), " / ", h("a", { href: address(`operator/${operatorOf(id)}`) }, operatorOf(id))),
    h("h1", {}, id), ...columnDetails(id, chosen, columns, details, chunk, parameters), h("h2", {}, "On all targets"), table);
}

function columnDetails(id, column, columns, details, chunk, parameters) {
  const detail = details[column];
  const [torch, target] = index.columns[column];
  if (!detail) return [h("p", {}, `On ${target} with torch ${torch}, this case was selected and did not run.`)];
  const parts = detail.text.map((part) => chunk.parts[part]);
  const facts = parts.length ? parts[0] : null;
  const about = [["target", `${target}, ${detail.mode}`], ["torch", detail.torch]];
  if (detail.seconds) about.push(["compiled in", `${detail.seconds} s`]);
  if (detail.shared_with) about.push(["capture", `shared with ${detail.shared_with}`]);
  if (detail.reused) about.push(["numerics", detail.reused]);
  if (detail.needs_fp64) about.push(["double precision", detail.needs_fp64]);
  const lines = [
    h("dl", { class: "about" }, about.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
      Object.entries(detail.checks).map(([name, [outcome, text]]) => [h("dt", {}, name), h("dd", {}, h("strong", {}, outcome), text ? `: ${text}` : "")])),
  ];
  if (facts !== null) lines.push(h("h2", {}, `Facts on ${target}`), h("pre", { class: "code wrap", tabindex: 0, html: facts }));
  for (const missed of detail.missed || []) lines.push(h("h2", {}, `Missed optimisation: ${missed.fact}`), h("p", {}, `wanted ${missed.wanted}, got ${missed.got}. ${missed.reason}`), h("p", { class: "soft" }, missed.judgement));
  if (detail.problems) lines.push(h("h2", {}, "Wrong numerics that a known failure excuses"), problemTable(detail.problems));
  for (const [name, title] of [["binaries", "Binaries"], ["shortfalls", "Kernels that ran little in the emulation"], ["notices", "Notices"]]) {
    if (detail[name]) lines.push(h("h2", {}, title), h("pre", { class: "code wrap", tabindex: 0 }, detail[name].join("\n")));
  }
  if (detail.node) lines.push(h("h2", {}, "Run it"), copyBlock(`pytest '${detail.node}'`));
  if (detail.script) lines.push(h("h2", {}, "Reproduction"), copyBlock(detail.script));
  lines.push(...codeOf(id, column, columns, details, chunk, parameters));
  return lines;
}

function problemTable(problems) {
  const names = [...new Set(problems.flatMap((problem) => Object.keys(problem)))];
  return scroll("Problems", h("table", {}, h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, problems.map((problem) => h("tr", {}, names.map((name) => h("td", {}, problem[name] === undefined ? "" : String(problem[name]))))))));
}

function codeOf(id, column, columns, details, chunk, parameters) {
  const detail = details[column];
  if (!detail.text.length) return [];
  const [torch, target] = index.columns[column];
  const others = columns.filter((other) => other !== column && details[other] && details[other].text.length);
  const choice = h("select", { onchange: (event) => { location.hash = address(`case/${id}`, { target, torch, with: event.target.value }); } },
    option("", "nothing", parameters.with || ""), detail.before ? option("before", "its text before the change", parameters.with) : null,
    others.map((other) => option(index.columns[other].join(" "), `${index.columns[other][1]}, torch ${index.columns[other][0]}`, parameters.with)));
  const heading = [h("h2", {}, `Code for ${target}`), h("p", {}, h("label", {}, "Side by side with ", choice))];
  const text = detail.text.map((part) => chunk.parts[part]);
  const other = columns.find((each) => index.columns[each].join(" ") === parameters.with);
  const second = parameters.with === "before" ? detail.before : other !== undefined && details[other] ? details[other].text : null;
  if (!second) return [...heading, h("pre", { class: "code", tabindex: 0, html: text.slice(1).join("\n\n") })];
  const before = second.map((part) => chunk.parts[part]);
  const name = parameters.with === "before" ? "before" : columnName(index.columns[other]);
  return [...heading, sideBySide(before.join("\n\n").split("\n"), text.join("\n\n").split("\n"), name, columnName(index.columns[column]))];
}

// ---- differences of two texts, with the changed words of a line

const plain = (() => { const box = document.createElement("template"); return (html) => { box.innerHTML = html; return box.content.textContent; }; })();

// Returns runs [start of one, end of one, start of other, end of other] of unequal elements (Myers, greedy).
function differences(one, other) {
  let start = 0, tail = 0;
  while (start < one.length && start < other.length && one[start] === other[start]) start += 1;
  while (tail < one.length - start && tail < other.length - start && one[one.length - 1 - tail] === other[other.length - 1 - tail]) tail += 1;
  const a = one.slice(start, one.length - tail), b = other.slice(start, other.length - tail);
  if (!a.length && !b.length) return [];
  const most = a.length + b.length, trace = [];
  let best = new Map([[1, 0]]);
  search: for (let depth = 0; depth <= most; depth += 1) {
    const next = new Map();
    trace.push(best);
    for (let k = -depth; k <= depth; k += 2) {
      const down = k === -depth || (k !== depth && (best.get(k - 1) ?? -1) < (best.get(k + 1) ?? -1));
      let x = down ? best.get(k + 1) ?? 0 : (best.get(k - 1) ?? 0) + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x += 1;
      next.set(k, x);
      if (x >= a.length && x - k >= b.length) { trace.push(next); break search; }
    }
    best = new Map([...best, ...next]);
  }
  const keptA = new Set(), keptB = new Set();
  let x = a.length, y = b.length;
  for (let depth = trace.length - 2; depth >= 0 && (x > 0 || y > 0); depth -= 1) {
    const reached = trace[depth], k = x - y;
    const down = k === -depth || (k !== depth && (reached.get(k - 1) ?? -1) < (reached.get(k + 1) ?? -1));
    const previous = down ? k + 1 : k - 1, px = depth ? reached.get(previous) ?? 0 : 0, py = px - previous;
    while (x > (depth ? (down ? px : px + 1) : 0) && y > 0) { x -= 1; y -= 1; keptA.add(x); keptB.add(y); }
    if (depth) { x = px; y = py; }
  }
  const runs = [];
  let i = 0, j = 0;
  while (i < a.length || j < b.length) {
    if (keptA.has(i) && keptB.has(j)) { i += 1; j += 1; continue; }
    const i0 = i, j0 = j;
    while (i < a.length && !keptA.has(i)) i += 1;
    while (j < b.length && !keptB.has(j)) j += 1;
    if (i === i0 && j === j0) break;
    runs.push([start + i0, start + i, start + j0, start + j]);
  }
  return runs;
}

const CONTEXT = 5;
function sideBySide(oldHtml, newHtml, oldName, newName) {
  const one = oldHtml.map(plain), other = newHtml.map(plain);
  const runs = differences(one, other);
  const body = h("tbody", {});
  const words = { gone: [], come: [] };
  const cell = (html, kind) => h("td", { class: `code ${kind}`, html: html === undefined ? "" : html || " " });
  const same = (from, to, otherFrom, isFirst, isLast) => {
    const fold = to - from > 2 * CONTEXT + 2;
    for (let at = from; at < to; at += 1) {
      const skipped = to - from - (isFirst ? 0 : CONTEXT) - (isLast ? 0 : CONTEXT);
      if (fold && at === from + (isFirst ? 0 : CONTEXT)) { body.append(h("tr", { class: "fold" }, h("td", { colspan: 2 }, `${plural(skipped, "equal line")}`))); at += skipped - 1; continue; }
      body.append(h("tr", {}, cell(oldHtml[at], ""), cell(newHtml[otherFrom + at - from], "")));
    }
  };
  let at = 0, otherAt = 0;
  runs.forEach(([i, iEnd, j, jEnd], number) => {
    same(at, i, otherAt, number === 0, false);
    for (let line = 0; line < Math.max(iEnd - i, jEnd - j); line += 1) {
      const left = i + line < iEnd, right = j + line < jEnd;
      const cells = [cell(left ? oldHtml[i + line] : undefined, left ? "gone" : "none"), cell(right ? newHtml[j + line] : undefined, right ? "come" : "none")];
      body.append(h("tr", {}, cells));
      if (left && right) markWords(one[i + line], other[j + line], cells, words);
    }
    at = iEnd; otherAt = jEnd;
  });
  same(at, one.length, otherAt, runs.length === 0, true);
  if (window.CSS && CSS.highlights) {
    CSS.highlights.clear();
    for (const kind of ["gone", "come"]) CSS.highlights.set(kind, new Highlight(...words[kind]));
  }
  const count = runs.length ? `${plural(runs.length, "place")} differ${runs.length === 1 ? "s" : ""}` : "The two texts are equal.";
  return h("div", {}, h("p", { class: "soft" }, count), scroll("Two texts side by side", h("table", { class: "diff" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, oldName), h("th", { scope: "col" }, newName))), body)));
}

function markWords(one, other, cells, words) {
  const split = (line) => line.match(/\w+|\s+|[^\w\s]/g) || [];
  const a = split(one), b = split(other);
  const offset = (tokens, at) => tokens.slice(0, at).join("").length;
  for (const [i, iEnd, j, jEnd] of differences(a, b)) {
    if (iEnd > i) words.gone.push(rangeOf(cells[0], offset(a, i), offset(a, iEnd)));
    if (jEnd > j) words.come.push(rangeOf(cells[1], offset(b, j), offset(b, jEnd)));
  }
}

function rangeOf(element, from, to) {
  const range = document.createRange(), walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  let seen = 0, started = false;
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (!started && from < seen + node.length) { range.setStart(node, from - seen); started = true; }
    if (started && to <= seen + node.length) { range.setEnd(node, to - seen); break; }
    seen += node.length;
  }
  return range;
}

// ---- changes, sections, runs

function hunk(lines) {
  return h("pre", { class: "code hunk", tabindex: 0 }, lines.map((line) => h("span", { class: line.startsWith("+") ? "come" : line.startsWith("-") ? "gone" : "" }, line)));
}

function changesPage() {
  const rows = index.changes;
  main.replaceChildren(h("h1", {}, "Changes, grouped by cause"),
    h("p", { class: "soft" }, "A cause is one change of the compiler. Accept from the terminal: python -m conformance review"),
    ...(rows.length ? rows.map((cause) => h("section", {}, h("h2", {}, h("a", { href: address(`change/${cause.id}`) }, cause.title)), h("p", {}, `${plural(cause.members.length, "text")}: ${cause.reach}`), hunk(cause.example.hunk.slice(0, 12)))) : [h("p", {}, "Nothing differs from what is stored.")]));
}

function changePage(id) {
  const cause = index.changes.find((each) => each.id === id);
  if (!cause) return notFound(`The report has no change ${id}.`);
  const torch = cause.torch[0];
  main.replaceChildren(h("p", { class: "crumbs" }, h("a", { href: "#/changes" }, "all changes")), h("h1", {}, cause.title),
    h("p", {}, `${plural(cause.members.length, "text")}: ${cause.reach}. torch ${cause.torch.join(", ")}${cause.compared_with.length ? `, compared with ${cause.compared_with.join(", ")}` : ""}.`),
    cause.consequences.length ? h("ul", {}, cause.consequences.map(([title, texts]) => h("li", {}, `with it, in ${plural(texts, "text")}: ${title}`))) : "",
    h("h2", {}, `Example: ${cause.example.case} on ${cause.example.target}${cause.example.where ? `, ${cause.example.where}` : ""}`), hunk(cause.example.hunk),
    h("h2", {}, "All texts, before and after"),
    h("ul", {}, cause.members.slice(0, MOST_ROWS).map(([id_, target]) => h("li", {}, h("a", { href: address(`case/${id_}`, { target, torch, with: "before" }) }, `${id_} on ${target}`)))));
}

async function sectionPage(name) {
  const data = await unpack(`section-${name}`);
  if (data === null) return notFound(`The report has no page ${name}.`);
  if (data.measurements) return timesPage(data.measurements);
  const prose = h("div", { class: "prose", html: data.html });
  prose.querySelectorAll("code").forEach((code) => { // a case of this report becomes a link
    if (index.numberOf.has(code.textContent) && !code.closest("a, pre")) code.replaceWith(h("a", { href: address(`case/${code.textContent}`) }, code.cloneNode(true)));
  });
  prose.querySelectorAll("a[href]").forEach((link) => { if (!/^(https?:|#\/)/.test(link.getAttribute("href"))) link.replaceWith(...link.childNodes); });
  prose.querySelectorAll("pre").forEach((block) => { block.tabIndex = 0; });
  main.replaceChildren(prose);
}

// ---- times

function bar(microseconds, most, name) {
  const filled = h("span", { class: `fill ${name}` });
  filled.style.width = `${Math.max(0.5, (100 * microseconds) / most)}%`;
  return h("span", { class: "timebar", title: name }, filled, h("span", { class: "value" }, `${name} ${microseconds.toPrecision(3)} µs`));
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
          h("td", {}, h("span", { class: row.slower ? "tag s-failed" : "" }, (row.eager / row.compiled).toFixed(2))),
          second ? h("td", {}, old ? (old.compiled / row.compiled).toFixed(2) : "new") : null, h("td", {}, row.why.join("; ")));
      })))));
}

function runsPage() {
  main.replaceChildren(h("h1", {}, "Runs"), ...index.runs.map((run) => h("section", {}, h("h2", {}, run.name), h("dl", { class: "about" },
    Object.entries(run).filter(([name]) => name !== "name").map(([name, value]) => [h("dt", {}, name), h("dd", {}, typeof value === "string" ? value : Array.isArray(value) ? value.join(", ") : JSON.stringify(value))])))),
    index.replaced ? h("p", {}, `${plural(index.replaced, "item")} occurred in two runs: the report shows the one with the stronger evidence.`) : "");
}

function notFound(message) {
  main.replaceChildren(h("h1", {}, "Not in this report"), h("p", {}, message), h("p", {}, h("a", { href: "#/" }, "All operators")));
}

// ---- addresses

async function route() {
  const [path, query] = decodeURI(location.hash.replace(/^#\/?/, "")).split("?");
  const parameters = Object.fromEntries(new URLSearchParams(query || ""));
  const [page, ...rest] = path.split("/");
  const name = rest.join("/");
  if (window.CSS && CSS.highlights) CSS.highlights.clear();
  if (path === "main") return;
  document.querySelectorAll("nav a").forEach((link) => { link.toggleAttribute("aria-current", link.getAttribute("href") === `#/${path}`); });
  if (page === "operator") matrixPage(parameters, name);
  else if (page === "case") await casePage(name, parameters);
  else if (page === "changes") changesPage();
  else if (page === "change") changePage(name);
  else if (page === "runs") runsPage();
  else if (page === "page") await sectionPage(name);
  else if (path === "") matrixPage(parameters);
  else notFound(`There is no page ${path}.`);
  document.documentElement.dataset.shown = location.hash;
}

async function start() {
  index = await unpack("index");
  states = Object.keys(index.states);
  operatorOf = (id) => id.split("/")[0];
  index.numberOf = new Map(index.cases.map((id, number) => [id, number]));
  index.lower = index.cases.map((id) => id.toLowerCase());
  index.operatorOfCase = index.cases.map(operatorOf);
  operators = [...new Set(index.operatorOfCase)];
  const links = [["", "Matrix"], ["changes", `Changes (${index.changes.length})`], ...index.sections.map((each) => [`page/${each.address}`, each.title]), ["runs", "Runs"]];
  document.getElementById("nav").append(...links.map(([path, title]) => h("a", { href: `#/${path}` }, title)));
  document.getElementById("footer").textContent = `Made ${index.made} from ${plural(index.runs.length, "run")}: ${plural(operators.length, "operator")}, ${plural(index.cases.length, "case")}.`;
  window.addEventListener("hashchange", () => { route(); main.focus({ preventScroll: true }); window.scrollTo(0, 0); });
  await route();
}
start();
})();
