// Pictures of numerics: the errors of eager and of compiled, and what is allowed, by the magnitude of the reference

const MOST_PICTURES = 6;
const HEIGHT = 200, LEFT = 44, BOTTOM = 34, TOP = 20, RIGHT = 6, ZERO = 15;

function power(exponent) { return `2${[...String(exponent)].map((sign) => "⁰¹²³⁴⁵⁶⁷⁸⁹"["0123456789".indexOf(sign)] || "⁻").join("")}`; }
function magnitudes(bucket) { return bucket.first === bucket.last ? `at ${power(bucket.first)}` : `at ${power(bucket.first)} to ${power(bucket.last)}`; }
function share(bucket) { return bucket.compiled ? bucket.compiled / bucket.allowed : 0; }

function bucketsOf(profile) {
  return profile.buckets.map((line) => {
    const [first, last, eager, compiled, allowed] = line.split(" ").map(Number);
    return { first, last, eager, compiled, allowed };
  });
}

function inWords(profile, buckets) {
  const nearest = buckets.reduce((one, other) => (share(other) > share(one) ? other : one));
  const eager = Math.max(...buckets.map((bucket) => bucket.eager));
  const call = profile.call === "ordinary" ? "" : `, call "${profile.call}"`;
  const verdict = share(nearest) > 1 ? "is over its limit" : "is nearest to its limit";
  return `${profile.tensor}, ${profile.dtype}${call}: compiled ${verdict} ${magnitudes(nearest)} with ${nearest.compiled} ulp, where ${nearest.allowed} ulp are allowed. Eager's largest error is ${eager} ulp.`;
}

// Errors of numerics of one column of a case. Returns nothing if none were recorded.
function errorPictures(profiles) {
  const measured = profiles.filter((profile) => profile.buckets.length).map((profile) => ({ profile, buckets: bucketsOf(profile) }));
  const same = profiles.filter((profile) => !profile.buckets.length).map((profile) => profile.tensor);
  const worst = (entry) => Math.max(...entry.buckets.map(share));
  const special = (entry) => Number(entry.profile.call !== "ordinary");
  measured.sort((one, other) => special(one) - special(other) || worst(other) - worst(one));
  const shown = measured.slice(0, MOST_PICTURES).map(picture), more = measured.slice(MOST_PICTURES);
  return [
    measured.length ? legend() : null,
    measured.length ? h("div", { class: "pictures" }, shown) : null,
    more.length ? h("details", {}, h("summary", {}, plural(more.length, "more tensor")), h("ul", {}, more.map((entry) => h("li", {}, inWords(entry.profile, entry.buckets))))) : null,
    same.length ? h("p", {}, `Compiled gave eager's bits: ${same.join(", ")}.`) : null,
  ];
}

function legend() {
  const sign = (shape) => svg("svg", { width: 16, height: 12, "aria-hidden": "true", class: "plot sign" }, shape);
  return h("p", { class: "legend" },
    h("span", {}, sign(compiledMark(8, 6, false)), " compiled, where it is nearest to its limit"), h("span", {}, sign(compiledMark(8, 6, true)), " over its limit"),
    h("span", {}, sign(eagerMark(8, 6)), " eager, largest"), h("span", {}, sign(svg("rect", { x: 0, y: 2, width: 16, height: 10, class: "allowed" })), " allowed"));
}

function eagerMark(x, y) { return svg("circle", { cx: x, cy: y, r: 4, class: "eager" }); }
function compiledMark(x, y, over) {
  const shape = over ? `M${x - 4} ${y - 4}L${x + 4} ${y + 4}M${x - 4} ${y + 4}L${x + 4} ${y - 4}` : `M${x} ${y - 4}L${x + 4} ${y}L${x} ${y + 4}L${x - 4} ${y}Z`;
  return svg("path", { d: shape, class: over ? "over" : "compiled" });
}

function picture({ profile, buckets }) {
  const width = Math.max(280, Math.min(520, main.clientWidth - 34));
  const positive = buckets.flatMap((bucket) => [bucket.eager, bucket.compiled, bucket.allowed]).filter((value) => value > 0);
  const low = Math.floor(Math.log10(Math.max(0.01, Math.min(...positive, 1)))), high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...positive, 1) * 1.1)));
  const floor = HEIGHT - BOTTOM, space = floor - TOP - ZERO; // the lowest place is for 0
  const y = (value) => (value > 0 ? floor - ZERO - (space * Math.max(0, Math.log10(value) - low)) / (high - low) : floor);
  const step = (width - LEFT - RIGHT) / buckets.length;
  const ticks = [];
  for (let decade = low; decade <= high; decade += Math.ceil((high - low) / 6)) ticks.push(decade);
  const every = Math.ceil(36 / step);
  const text = inWords(profile, buckets);
  const columns = buckets.map((bucket, number) => {
    const from = LEFT + number * step, middle = from + step / 2, over = bucket.compiled > bucket.allowed;
    return [
      svg("rect", { x: from, y: y(bucket.allowed), width: step, height: floor - y(bucket.allowed) + 1, class: "allowed" }),
      number % every === 0 ? svg("text", { x: middle, y: floor + 14, class: "x" }, power(bucket.first)) : null,
      eagerMark(middle - 2, y(bucket.eager)), compiledMark(middle + 2, y(bucket.compiled), over),
    ];
  });
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": text, class: "plot" },
    ticks.map((decade) => [svg("line", { x1: LEFT, x2: width - RIGHT, y1: y(10 ** decade), y2: y(10 ** decade), class: "grid" }),
      svg("text", { x: LEFT - 5, y: y(10 ** decade) + 4, class: "y" }, String(Number((10 ** decade).toPrecision(1))))]),
    svg("line", { x1: LEFT, x2: width - RIGHT, y1: floor, y2: floor, class: "axis" }), svg("text", { x: LEFT - 5, y: floor + 4, class: "y" }, "0"),
    columns, svg("text", { x: LEFT + (width - LEFT - RIGHT) / 2, y: HEIGHT - 4, class: "x" }, "magnitude of the float64 result"),
    svg("text", { x: LEFT - 5, y: 10, class: "y" }, "ulp"));
  drawing.style.maxWidth = `${width}px`;
  return h("figure", {}, drawing, h("figcaption", {}, text), numbers(profile, buckets));
}

function numbers(profile, buckets) {
  const names = ["magnitude", "eager", "compiled", "allowed"];
  return h("details", {}, h("summary", {}, "The numbers, in ulp"), scroll(`Errors of ${profile.tensor}`, h("table", {}, h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, buckets.map((bucket) => h("tr", {}, h("th", { scope: "row" }, magnitudes(bucket).slice(3)), [bucket.eager, bucket.compiled, bucket.allowed].map((value) => h("td", {}, String(value)))))))));
}
