// Elements and data

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

// An element of SVG.
function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.flat(Infinity).filter((child) => child !== null));
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
const GLYPHS = { "wrong values": "✗", crash: "☠", "not run": "∅", "requirement not met": "≠", "code changed": "Δ", "stale known failure": "↺",
  "not stored": "+", "cannot run here": "?", "missed optimisation": "~", "known failure": "!", "excluded by the case": "–", passed: "✓" };
function classOf(state) { return `s-${state.split(" ").join("-")}`; }
let index, states, operators, operatorOf;
function title(...words) { document.title = [...words, index.title].join(" – "); }

function device(target) { return target.split("_")[0]; }
function plural(count, word) { return `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`; }
function columnName(column) { return [column[1], severalTorches() && column[0], column[2]].filter(Boolean).join(" "); }
function severalTorches() { return new Set(index.columns.map((column) => column[0])).size > 1; }
function address(path, parameters = {}) {
  const words = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== "" && value !== undefined));
  return `#/${path}${words.size ? `?${words}` : ""}`;
}
function stateTag(state, text) { return h("span", { class: `tag ${classOf(state)}` }, `${GLYPHS[state]} ${text || state}`); }
function option(value, text, chosen) { return h("option", { value, selected: value === chosen }, text); }
// A search and a choice for each [name, values]. `show` gets what is chosen, and the address of the page keeps it.
function choiceForm(label, choices, parameters, page, show) {
  const form = h("form", { class: "filters", role: "search", "aria-label": "Filter", onsubmit: (event) => event.preventDefault() },
    h("label", { class: "grow" }, label, h("input", { name: "q", type: "search", autocomplete: "off", value: parameters.q || "" })),
    choices.map(([name, values]) => h("label", {}, name, h("select", { name }, option("", "any", parameters[name]), values.map((value) => option(value, value, parameters[name]))))));
  form.addEventListener("input", () => {
    const values = Object.fromEntries(new FormData(form));
    history.replaceState(history.state, "", address(page, values));
    show(values);
  });
  return form;
}
// Words in `backquotes` are code.
function withCode(text) { return text.split(/`([^`]+)`/).map((part, number) => (number % 2 ? h("code", {}, part) : part)); }
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
