"""The pages of `view`: the runs, a report, a comparison, a review, a search, and the kernels of a pasted function."""

from __future__ import annotations

import argparse
import html
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote

from conformance.cli.case_options import COMPILING, PARTS, project_targets
from conformance.cli.viewing.pasted import Compiling, PastedError
from conformance.cli.viewing.reports import NoSuchRunError, Reports, description
from conformance.cli.viewing.server import POLICY, Answer, Request
from conformance.devices.targets import targets
from conformance.errors import ConformanceError
from conformance.storage.runs import Run, RunError

#: Hits that the search shows of one run.
_MOST_HITS = 40
_REPORT_POLICY = re.compile(r'http-equiv="Content-Security-Policy" content="([^"]*)"')
#: A function that the form begins with.
_EXAMPLE = ("lambda x: x.flip(-1)", "x=1x3x224x224:u8")


class Site:
    """`options`: those of `view`, with what lies over the stored code. `can_accept`: whether it may write."""

    def __init__(self, root: Path, options: argparse.Namespace, *, can_accept: bool) -> None:
        self._options, self._can_accept = options, can_accept
        self._reports = Reports(root)
        self.compiling = Compiling(root, [f"--targets={file}" for file in options.overlay.targets])
        self._said: dict[str, list[str]] = {}  # what the next review of a run says first
        self._accepted: dict[str, set[str]] = {}  # ids: an item that also has another cause waits for that one
        self._reading, self._compiles = threading.Lock(), threading.Lock()

    def answer(self, request: Request) -> Answer:
        """Answers an admitted request. What is wrong becomes a page with one sentence."""
        page, rest = (*request.path, "")[0], request.path[1:]
        gets: dict[str, Callable[..., Answer]] = {"": self._runs, "compare": self._compare, "search": self._search}
        of_run: dict[str, Callable[..., Answer]] = {"run": self._run, "review": self._review}
        try:
            if page == "kernels" and not rest:
                return self._kernels(request)
            with self._reading:  # the table of targets and the kept pages are for one at a time
                if request.is_post:
                    if page == "review" and len(rest) == 1:
                        return self._decide(request, rest[0])
                elif page in gets and not rest:
                    return gets[page](request)
                elif page in of_run and len(rest) == 1:
                    return of_run[page](rest[0])
        except NoSuchRunError as error:
            return self._message(str(error), HTTPStatus.NOT_FOUND)
        except ConformanceError as error:
            return self._message(str(error), HTTPStatus.CONFLICT)
        except OSError as error:
            return self._message(f"{error.filename or 'a file'}: {error.strerror}", HTTPStatus.CONFLICT)
        return self._message("there is no such page", HTTPStatus.NOT_FOUND)

    # Runs -------------------------------------------------------------------------------------------------------------

    def _runs(self, _request: Request) -> Answer:
        rows = [{"name": run.folder.name, **_described(run)} for run in self._reports.runs()]
        return self._page("view_runs.html", "runs", rows=rows, last=self._reports.last())

    def _run(self, name: str) -> Answer:
        run = self._reports.run(name)
        links = {"All runs": "../", "Review": f"../review/{quote(name, safe='')}"}
        return _report(self._reports.page(run, links))

    def _compare(self, request: Request) -> Answer:
        from conformance.report.comparison import Side

        sides = []
        for name in "ab":
            run, target = self._reports.run(request.value(name)), request.value(f"target_{name}")
            known = run.description()["targets"]
            if target and target not in known:
                raise RunError(f"the run {request.value(name)} has no {target}, but {', '.join(known)}")
            sides.append(Side(run, target))
        return _report(self._reports.comparison(sides, {"All runs": "./"}))

    # Search -----------------------------------------------------------------------------------------------------------

    def _search(self, request: Request) -> Answer:
        words = request.value("q").lower().split()
        problems, found = [], []
        for run in self._reports.runs() if words else ():
            try:
                hits = self._hits(run, words)
            except RunError as error:
                problems.append(str(error))
                continue
            if hits:
                found.append({"name": run.folder.name, "hits": hits[:_MOST_HITS], "count": len(hits)})
        return self._page("view_search.html", "search", query=request.value("q"), found=found, problems=problems)

    def _hits(self, run: Run, words: Sequence[str]) -> list[dict[str, str]]:
        """The items that have all words in their name, kernels, facts or errors. Raises RunError."""
        from conformance.report.search_words import search_words

        cells = self._reports.cells(run)
        data = search_words(cells)
        hits = []
        for case, row in zip(cells.cases, data["cells"], strict=True):
            for column, number in zip(cells.columns, row, strict=True):
                cell = cells.cells.get((case, column))
                if cell is None:
                    continue
                lines = [data["lines"][each] for each in data["sets"][number]] if number >= 0 else []
                name = f"{case} {column.target}"
                text = "\n".join([name, *lines]).lower()
                if all(word in text for word in words):
                    line = next((each for each in lines if any(word in each for word in words)), "")
                    address = f"#/case/{quote(case)}?target={quote(column.target)}"
                    hits.append({"name": name, "line": line[:200], "address": address, "state": cell.state})
        return hits

    # Review -----------------------------------------------------------------------------------------------------------

    def _review(self, name: str) -> Answer:
        from conformance.cli.review_decisions import read_rejected
        from conformance.review import overview

        run, store, found, problems = self._compared(name)
        rejected = read_rejected(run)
        causes = [
            {
                "id": cause.id,
                "title": cause.title,
                "reach": cause.reach,
                "texts": len(cause.members),
                "example": cause.example.item.name,
                "where": cause.example.where,
                "lines": cause.example.hunk,
                "consequences": overview.consequence_lines(cause, 5),
                "fails": sum(member.numerics_fail for member in found.members(number)),
                "rejected": cause.id in rejected,
                "waits": cause.id in self._accepted.get(name, ()),
            }
            for number, cause in enumerate(found.causes, 1)
        ]
        headline = (
            overview.headline(found) if found.changed_items else f"nothing differs: {found.equal} texts unchanged"
        )
        return self._page(
            "view_review.html",
            f"review of {name}",
            name=name,
            headline=headline,
            causes=causes,
            new=len(found.new),
            problems=problems,
            said=self._said.pop(name, []),
            store=store,
        )

    def _decide(self, request: Request, name: str) -> Answer:
        """Accepts or rejects a cause, as the terminal's review does, then shows the review again."""
        from conformance.cli.review_decisions import read_rejected, store_items, write_rejected

        if not self._can_accept:
            return self._message(
                "this page is read-only: start it with `python -m conformance view --accept`", HTTPStatus.FORBIDDEN
            )
        run, store, found, _ = self._compared(name)
        wanted, decision = request.value("cause"), request.value("decision")
        numbers = {number for number, cause in enumerate(found.causes, 1) if cause.id == wanted}
        if decision not in ("accept", "reject") or not (numbers or (wanted == "new" and decision == "accept")):
            return self._message("there is no such cause now: look at the review again", HTTPStatus.CONFLICT)
        rejected, accepted_ids = read_rejected(run), self._accepted.setdefault(name, set())
        if decision == "reject":
            cause = found.causes[min(numbers) - 1]
            accepted_ids.discard(cause.id)
            write_rejected(run, {**rejected, cause.id: cause.title})
            self._said[name] = [f"rejected: {cause.title}; its items were not stored"]
        else:
            accepted_ids.update({wanted} - {"new"})
            numbers = {number for number, cause in enumerate(found.causes, 1) if cause.id in accepted_ids}
            accepted, waiting = found.items_of_causes(numbers if wanted != "new" else ())
            self._said[name], _ = store_items(run, accepted, waiting, store, found.new if wanted == "new" else ())
            if wanted in rejected:
                write_rejected(run, {key: title for key, title in rejected.items() if key != wanted})
        return Answer("", HTTPStatus.SEE_OTHER, location=f"review/{quote(name, safe='')}")

    def _compared(self, name: str) -> tuple[Run, str, Any, list[str]]:
        """The run, the folder over its stored code, what differs, and why some of it cannot be compared."""
        from conformance.cli.overlay_options import refuse_configured_run, store_of_run
        from conformance.cli.review_decisions import compared_with_stored

        run = self._reports.run(name)
        refuse_configured_run(run)
        store = store_of_run(self._options, run)
        found, located = compared_with_stored(run, store)
        return run, store, found, [*located.notes, *located.missing, *found.problems]

    # Kernels ----------------------------------------------------------------------------------------------------------

    def _kernels(self, request: Request) -> Answer:
        known = list(targets())
        form = {
            "code": request.value("code") or _EXAMPLE[0],
            "inputs": request.value("inputs") if request.is_post else _EXAMPLE[1],
            "chosen": request.form.get("target", []) if request.is_post else project_targets()[:1] or known[:1],
            "shown": request.form.get("part", []) if request.is_post else ["facts", "why", "code"],
        }
        results, problem = [], ""
        if request.is_post:
            try:
                results = self._compiled(form, known)
            except PastedError as error:
                problem = str(error)
        parts = [part for part in PARTS if part not in COMPILING]
        return self._page(
            "view_kernels.html", "kernels", known=known, parts=parts, results=results, problem=problem, **form
        )

    def _compiled(self, form: Mapping[str, Any], known: Sequence[str]) -> list[dict[str, str]]:
        """Raises PastedError."""
        for what, words, right in (("target", form["chosen"], known), ("part", form["shown"], [*PARTS])):
            if unknown := [word for word in words if word not in right]:
                raise PastedError(f"there is no {what} {unknown[0]}")
        if not form["chosen"]:
            raise PastedError("choose a target")
        inputs = [line.strip() for line in form["inputs"].splitlines() if line.strip()]
        with self._compiles:
            found = self.compiling.compile(form["code"], inputs, form["chosen"], form["shown"])
        return [{"target": each.target, "text": each.text, "problem": each.problem} for each in found]

    # Pages ------------------------------------------------------------------------------------------------------------

    def _page(self, template_name: str, title: str, **values: Any) -> Answer:
        return Answer(self._rendered(template_name, title, values))

    def _message(self, text: str, status: HTTPStatus) -> Answer:
        return Answer(self._rendered("view.html", "conformance", {"message": text}), status)

    def _rendered(self, template_name: str, title: str, values: Mapping[str, Any]) -> str:
        from conformance.report.environment import asset, template

        style = asset("report.css") + asset("view.css")
        return template(template_name).render(
            title=title, style=style, can_accept=self._can_accept, **{"message": "", "up": "", **values}
        )


def _described(run: Run) -> dict[str, Any]:
    """What the list says of a run; a run that cannot be read says why."""
    from conformance.report.about import about

    try:
        names = description(run)["targets"]
        return {"said": about(run), "targets": names, "items": len(run.selected()), "problem": ""}
    except RunError as error:
        return {"said": {}, "targets": [], "items": 0, "problem": str(error)}


def _report(page: str) -> Answer:
    """A report's page, with the policy that it has itself: its own script may run, and nothing else."""
    found = _REPORT_POLICY.search(page)
    policy = html.unescape(found[1]) + "; frame-ancestors 'none'" if found else POLICY
    return Answer(page, policy=policy)
