// Addresses

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
  else if (page === "change") changePage(name, parameters);
  else if (page === "runs") runsPage();
  else if (page === "page") await sectionPage(name);
  else if (path === "") matrixPage(parameters);
  else notFound(`There is no page ${path}.`);
  document.documentElement.dataset.shown = location.hash;
  const differences = parameters.with && document.getElementById("code");
  if (differences) differences.scrollIntoView();
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
  window.addEventListener("hashchange", () => { main.focus({ preventScroll: true }); window.scrollTo(0, 0); route(); });
  await route();
}
start();
