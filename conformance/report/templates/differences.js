// Differences of two texts, with the changed words of a line

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
  // A row that stands for equal lines, and opens them.
  const folded = (from, otherFrom, count) => {
    const row = h("tr", { class: "fold" }, h("td", { colspan: 2 }, h("button", { type: "button", onclick: () => {
      row.replaceWith(...Array.from({ length: count }, (_, line) => h("tr", {}, cell(oldHtml[from + line], ""), cell(newHtml[otherFrom + line], ""))));
    } }, `Show ${plural(count, "equal line")}`)));
    return row;
  };
  const same = (from, to, otherFrom, isFirst, isLast) => {
    const fold = to - from > 2 * CONTEXT + 2;
    for (let at = from; at < to; at += 1) {
      const skipped = to - from - (isFirst ? 0 : CONTEXT) - (isLast ? 0 : CONTEXT);
      if (fold && at === from + (isFirst ? 0 : CONTEXT)) { body.append(folded(at, otherFrom + at - from, skipped)); at += skipped - 1; continue; }
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
