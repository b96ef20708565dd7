// Same bits: how many cases of each operator and target keep a property, and the cases that do not, with the reason

const BIT_WORDS = ["same", "differ", "may differ", "not defined"], MOST_BITS = 300;

// data.same_bits: rows of [case, target, torch, for each property [word, evidence, what, reason]].
function bitsPage(data, parameters) {
  const result = h("div", {}), targets = [...new Set(data.same_bits.map(([, target]) => target))];
  const choices = [["property", data.properties], ["verdict", BIT_WORDS], ["target", targets]];
  const show = (values) => {
    const found = bitsFound(data, values);
    result.replaceChildren(bitsTable(data, bitsFound(data, { ...values, verdict: "" }), values.property), bitsList(data, found));
  };
  const form = choiceForm("Search cases and reasons: softmax atomic (key /)", choices, parameters, "page/same-bits", show);
  main.replaceChildren(h("h1", {}, "Same bits"), h("p", { class: "soft" }, "Native: the bits were compared. Structure: the order in which kernels add up was, without the device. A cell says how many cases keep a property, of those where it is defined."), form, result);
  show(parameters);
}

// [row, number of the property] of each verdict that the filters let through.
function bitsFound(data, values) {
  const words = (values.q || "").toLowerCase().split(/\s+/).filter(Boolean), found = [];
  data.same_bits.forEach((row) => row[3].forEach((verdict, property) => {
    if (values.property && data.properties[property] !== values.property) return;
    if ((values.verdict && verdict[0] !== values.verdict) || (values.target && row[1] !== values.target)) return;
    const said = [row[0], ...verdict].join(" ").toLowerCase();
    if (words.every((word) => said.includes(word))) found.push([row, property]);
  }));
  return found;
}

function bitsTable(data, found, chosen) {
  const counts = new Map(), shown = data.properties.filter((name) => !chosen || name === chosen);
  found.forEach(([row, property]) => {
    const key = `${operatorOf(row[0])} ${row[1]}`, word = row[3][property][0];
    if (!counts.has(key)) counts.set(key, data.properties.map(() => [0, 0]));
    const cell = counts.get(key)[property];
    if (word === "same") cell[0] += 1;
    if (word !== "not defined") cell[1] += 1;
  });
  const cell = ([same, all]) => h("td", { class: all && same < all ? "less" : "" }, all ? `${same} of ${all}` : "–");
  return h("details", { open: true }, h("summary", {}, `${plural(counts.size, "pair")} of operator and target`), scroll("Same bits by operator", h("table", { class: "plain" },
    h("thead", {}, h("tr", {}, ["operator", "target", ...shown].map((name) => h("th", { scope: "col", title: data.about[data.properties.indexOf(name)] }, name)))),
    h("tbody", {}, [...counts].map(([key, cells]) => h("tr", {}, h("th", { scope: "row" }, key.split(" ")[0]), h("td", {}, key.split(" ")[1]), cells.filter((_, number) => shown.includes(data.properties[number])).map(cell)))))));
}

function bitsList(data, found) {
  const lost = found.filter(([row, property]) => row[3][property][0] !== "same" && row[3][property][0] !== "not defined");
  const listed = lost.length ? lost : found;
  return h("section", {}, h("h2", { id: "sum", "aria-live": "polite" }, lost.length ? `${plural(lost.length, "verdict")} that bits differ, or may` : plural(found.length, "verdict")),
    listed.length > MOST_BITS ? h("p", { class: "soft" }, `The first ${MOST_BITS}: a search or a filter shows others.`) : null,
    h("ul", {}, listed.slice(0, MOST_BITS).map(([row, property]) => {
      const [word, evidence, what, reason] = row[3][property];
      return h("li", {}, h("a", { href: address(`case/${row[0]}`, { target: row[1], torch: row[2] }) }, row[0]), ` on ${row[1]}: ${data.properties[property]} ${word}${evidence ? ` (${evidence})` : ""}${what ? `: ${what}` : ""}`, reason ? h("div", { class: "soft" }, reason) : null);
    })));
}
