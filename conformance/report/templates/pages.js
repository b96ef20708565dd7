// Changes, sections, runs

function hunk(lines) {
  return h("pre", { class: "code hunk", tabindex: 0 }, lines.map((line) => h("span", { class: line.startsWith("+") ? "come" : line.startsWith("-") ? "gone" : "" }, line)));
}

function changesPage() {
  const rows = index.changes;
  title("Changes");
  main.replaceChildren(h("h1", {}, "Changes, grouped by cause"),
    h("p", { class: "soft" }, index.reviews.length ? "A cause is one change of the compiler. Accept or reject each in the terminal, in the project that has the run:" : "A cause is one change of the compiler."), ...index.reviews.map(copyBlock),
    ...(rows.length ? rows.map((cause) => h("section", {}, h("h2", {}, h("a", { href: address(`change/${cause.id}`, { torch: cause.torch[0] }) }, withCode(cause.title)), severalTorches() ? h("span", { class: "soft" }, ` torch ${cause.torch.join(", ")}`) : null), h("p", {}, `${plural(cause.members.length, unitOf(cause))}: ${cause.reach}`), hunk(cause.example.hunk.slice(0, 12)))) : [h("p", {}, "Nothing differs from what is stored.")]));
}

function unitOf(cause) {
  return cause.kind === "cost" ? "item" : "text";
}

// A cause has the same id on each torch release where it occurs.
function changePage(id, parameters) {
  const cause = index.changes.find((each) => each.id === id && (!parameters.torch || each.torch.includes(parameters.torch)));
  if (!cause) return notFound(`The report has no change ${id}.`);
  const torch = cause.torch[0];
  title("Change", cause.title);
  trail = [...new Set(cause.members.map(([member]) => member))];
  main.replaceChildren(h("p", { class: "crumbs" }, h("a", { href: "#/changes" }, "all changes")), h("h1", {}, withCode(cause.title)),
    h("p", {}, `${plural(cause.members.length, unitOf(cause))}: ${cause.reach}. torch ${cause.torch.join(", ")}${cause.compared_with.length ? `, compared with ${cause.compared_with.join(", ")}` : ""}.`),
    cause.functions.length ? h("p", {}, "Comes from ", ...cause.functions.flatMap((name, number) => [number ? " and " : "", h("code", {}, name)]), ".") : "",
    cause.consequences.length ? h("ul", {}, cause.consequences.map(([title, texts]) => h("li", {}, `with it, in ${plural(texts, unitOf(cause))}: `, withCode(title)))) : "",
    h("h2", {}, `Example: ${cause.example.case} on ${cause.example.target}${cause.example.where ? `, ${cause.example.where}` : ""}`), hunk(cause.example.hunk),
    h("h2", {}, cause.kind === "cost" ? "All items" : "All texts, before and after"),
    h("ul", {}, cause.members.map(([id_, target]) => h("li", {}, h("a", { href: address(`case/${id_}`, { target, torch }) }, `${id_} on ${target}`)))));
}

async function sectionPage(name, parameters) {
  const data = await unpack(`section-${name}`);
  if (data === null) return notFound(`The report has no page ${name}.`);
  title((index.sections.find((each) => each.address === name) || {}).title || name);
  if (data.explain) return explainPage(data.explain, parameters);
  if (data.bugs) return bugsPage(data.bugs, parameters);
  if (data.same_bits) return bitsPage(data, parameters);
  if (data.timeline) return timelinePage(data.timeline);
  if (data.measurements) return timesPage(data.measurements);
  const prose = h("div", { class: "prose", html: data.html });
  prose.querySelectorAll("code").forEach((code) => { // a case of this report becomes a link
    if (index.numberOf.has(code.textContent) && !code.closest("a, pre")) code.replaceWith(h("a", { href: address(`case/${code.textContent}`) }, code.cloneNode(true)));
  });
  prose.querySelectorAll("a[href]").forEach((link) => { if (!/^(https?:|#\/)/.test(link.getAttribute("href"))) link.replaceWith(...link.childNodes); });
  prose.querySelectorAll("table").forEach((table) => { const box = scroll("A table"); table.replaceWith(box); box.append(table); });
  prose.querySelectorAll("pre").forEach((block) => { block.tabIndex = 0; });
  main.replaceChildren(prose);
}
