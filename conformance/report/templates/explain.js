// Source, graph, IR and kernels of a case, linked by line

function explainPage(data, parameters) {
  const chosen = data.targets.find((each) => each.target === parameters.target) || data.targets[0];
  title(data.case, chosen.target);
  const tabs = h("nav", { class: "tabs", "aria-label": "Targets of this case" }, data.targets.map((each) => h("a", { href: address("page/explain", { target: each.target }), "aria-current": each === chosen ? "page" : false }, each.target)));
  main.replaceChildren(h("h1", {}, data.case), tabs, h("p", { class: "soft" }, `${chosen.target}: ${chosen.origin}`), ...explained(chosen, parameters.line, (line) => address("page/explain", { target: chosen.target, line })),
    h("h2", {}, "Facts"), h("pre", { class: "code wrap", tabindex: 0 }, chosen.facts));
}

// The panes. `line`: the chosen one, as "pane-line". `addressOf`: takes such a line, returns its address.
function explained(explanation, line, addressOf) {
  const { panes, links } = explanation;
  const forward = panes.map(() => new Map()), back = panes.map(() => new Map());
  const add = (map, from, to) => map.set(from, [...(map.get(from) || []), to]);
  links.forEach((pairs, pane) => pairs.forEach(([from, to]) => { add(forward[pane], from, to); add(back[pane + 1], to, from); }));
  const isLinked = (pane, number) => forward[pane].has(number) || back[pane].has(number);
  const said = h("p", { class: "soft", role: "status" });
  const boxes = panes.map((pane, position) => h("pre", { class: "code", tabindex: 0, role: "region", "aria-label": pane.name }, pane.lines.map((html, number) => [
    h("span", { class: isLinked(position, number) ? "line has-links" : "line", "data-line": number, html }),
    (pane.notes[number] || []).map((text) => h("span", { class: "reason" }, text)),
  ])));
  const lines = boxes.map((box) => [...box.querySelectorAll(".line")]);
  let chosen = null;

  // From the chosen line to the right through each pane, and to the left.
  function linked(position, number) {
    const found = panes.map(() => new Set());
    found[position].add(number);
    for (const [step, maps] of [[1, forward], [-1, back]]) {
      for (let pane = position; panes[pane + step]; pane += step) found[pane].forEach((each) => (maps[pane].get(each) || []).forEach((other) => found[pane + step].add(other)));
    }
    return found;
  }
  function choose(position, number) {
    chosen = chosen && chosen[0] === position && chosen[1] === number ? null : [position, number];
    const found = chosen ? linked(position, number) : panes.map(() => new Set());
    lines.forEach((pane, place) => pane.forEach((each, other) => {
      each.classList.toggle("linked", found[place].has(other));
      if (chosen && place === position && other === number) each.setAttribute("aria-current", "true"); else each.removeAttribute("aria-current");
    }));
    found.forEach((numbers, place) => { if (numbers.size) reveal(boxes[place], lines[place][Math.min(...numbers)], place === position); });
    said.textContent = chosen ? `Line ${number + 1} of ${panes[position].name}: ${panes.map((pane, place) => place === position ? null : `${plural(found[place].size, "line")} of ${pane.name}`).filter(Boolean).join(", ")}.` : HINT;
    history.replaceState(history.state, "", addressOf(chosen ? chosen.join("-") : ""));
  }
  const HINT = "Click a line: the lines that it comes from, and those that come from it, are marked. Arrow keys go to the next line with links.";
  said.textContent = HINT;
  boxes.forEach((box, position) => {
    box.addEventListener("click", (event) => {
      const number = event.target.closest(".has-links");
      if (number && !String(window.getSelection())) choose(position, Number(number.dataset.line));
    });
    box.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!step) return;
      let number = chosen && chosen[0] === position ? chosen[1] + step : step > 0 ? 0 : lines[position].length - 1;
      while (lines[position][number] && !isLinked(position, number)) number += step;
      if (!lines[position][number]) return;
      event.preventDefault();
      choose(position, number);
    });
  });
  const [position, number] = (line || "").split("-").map(Number);
  if (lines[position] && lines[position][number]) requestAnimationFrame(() => { choose(position, number); boxes[position].scrollIntoView({ block: "nearest" }); });
  return [said, h("div", { class: "explain" }, panes.map((pane, place) => h("section", { class: `pane-${place}` }, h("h2", {}, pane.name), boxes[place]))),
    h("h2", {}, "All reasons"), h("pre", { class: "code wrap", tabindex: 0 }, explanation.why)];
}

// Scrolls within a pane alone. `nearest`: only as far as the line is not seen.
function reveal(box, line, nearest) {
  const top = line.offsetTop;
  if (!nearest || top < box.scrollTop || top + line.offsetHeight > box.scrollTop + box.clientHeight) box.scrollTop = top - box.clientHeight / 3;
}
