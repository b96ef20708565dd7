// Addresses

async function route() {
  const [path, query] = decodeURI(location.hash.replace(/^#\/?/, "")).split("?");
  const parameters = Object.fromEntries(new URLSearchParams(query || ""));
  const [page, ...rest] = path.split("/");
  const name = rest.join("/");
  if (window.CSS && CSS.highlights) CSS.highlights.clear();
  if (path === "main") return;
  document.querySelectorAll("nav a").forEach((link) => { link.toggleAttribute("aria-current", link.getAttribute("href") === `#/${path}`); });
  const here = place();
  if (page === "operator") matrixPage(parameters, name);
  else if (page === "case") await casePage(name, parameters);
  else if (page === "all") matrixPage(parameters);
  else if (page === "need") needPage(name);
  else if (page === "bug") await bugPage(name);
  else if (page === "changes") changesPage();
  else if (page === "change") changePage(name, parameters);
  else if (page === "runs") runsPage();
  else if (page === "page") await sectionPage(name, parameters);
  else if (path === "") await frontPage(parameters);
  else notFound(`There is no page ${path}.`);
  document.documentElement.dataset.shown = location.hash;
  const differences = parameters.with && document.getElementById("code");
  if (positions.has(here)) restore(positions.get(here));
  else if (differences) differences.scrollIntoView();
  else window.scrollTo(0, 0);
}

// Where each entry of the browser's history was scrolled to: a new entry begins at its head, and "back" finds its place.
const positions = new Map();
let places = Date.now();
function place() {
  if (!history.state) history.replaceState({ place: (places += 1) }, "");
  return history.state.place;
}
function remember(state) {
  if (state) positions.set(state.place, [window.scrollY, ...[...document.querySelectorAll(".scroll")].map((box) => [box.scrollTop, box.scrollLeft])]);
}
function restore([top, ...boxes]) {
  document.querySelectorAll(".scroll").forEach((box, number) => { if (boxes[number]) [box.scrollTop, box.scrollLeft] = boxes[number]; });
  window.scrollTo(0, top);
}

function onKey(event) {
  const field = document.querySelector("[name=q]");
  const typing = event.target.matches("input, select, textarea") || event.altKey || event.metaKey;
  if ((event.key === "k" && (event.ctrlKey || event.metaKey)) || (event.key === "/" && !typing)) {
    event.preventDefault();
    if (field) { field.focus(); field.select(); field.scrollIntoView({ block: "nearest" }); } else { searchNext = true; location.hash = "#/"; }
  } else if (!typing && !event.ctrlKey && ["j", "k"].includes(event.key)) {
    const link = document.querySelector(`a[data-key=${event.key}]`);
    if (link) link.click();
  }
}
let searchNext = false;

// A page without runs, such as that of the documentation, begins with its first section.
async function frontPage(parameters) {
  if (index.comparison) await comparisonPage(parameters);
  else if (index.cases.length || !index.sections.length) matrixPage(parameters);
  else await sectionPage(index.sections[0].address, parameters);
}

async function start() {
  index = await unpack("index");
  states = index.states;
  operatorOf = (id) => id.split("/")[0];
  index.numberOf = new Map(index.cases.map((id, number) => [id, number]));
  index.lower = index.cases.map((id) => id.toLowerCase());
  index.operatorOfCase = index.cases.map(operatorOf);
  operators = [...new Set(index.operatorOfCase)];
  const sections = index.sections.map((each) => [`page/${each.address}`, each.title]);
  const links = index.runs.length ? [["", index.comparison ? "What differs" : "What needs someone"], ...(index.comparison ? [["all", "All items"]] : []), ["changes", `Changes (${index.changes.length})`], ...sections, ["runs", "Runs"]] : sections;
  document.getElementById("nav").append(...links.map(([path, title]) => h("a", { href: `#/${path}` }, title)));
  const made = index.runs.length ? ` from ${plural(index.runs.length, "run")}: ${plural(operators.length, "operator")}, ${plural(index.cases.length, "case")}` : "";
  document.getElementById("footer").textContent = `Made ${index.made}${made}.`;
  history.scrollRestoration = "manual";
  let current = history.state;
  const scrolled = () => remember(current);
  window.addEventListener("scroll", scrolled, { passive: true, capture: true });
  window.addEventListener("hashchange", async () => {
    main.focus({ preventScroll: true });
    current = null;
    await route();
    current = history.state;
    if (searchNext) document.querySelector("[name=q]").focus();
    searchNext = false;
  });
  document.addEventListener("keydown", onKey);
  await route();
  current = history.state;
}
start();
