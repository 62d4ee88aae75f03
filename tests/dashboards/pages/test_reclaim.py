"""The page Now, idle alone: in a browser, jobs of a live scheduler are proposed, reclaimed, resumed and kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from access.settings import AccessSettings
from api.reach import Reach
from dashboards.app import DashboardSettings, build_app
from scheduler.live.http import build_app as scheduler_app
from tests.dashboards.browser import MARKS, tab
from tests.dashboards.site import running
from tests.draws import seldom
from tests.patience import until
from tests.scheduler.live.idling import Idling
from warehouse.store import Store

pytestmark = [*MARKS, seldom(6, "idle jobs are reclaimed and kept")]
POLICY: dict[str, Any] = {"warn": "30m", "after": "2h", "then": "suspend"}


def test_idle_jobs_are_reclaimed_and_kept_from_the_page(house: Store, tmp_path: Path, opened: Any) -> None:
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import expect

    living = Idling(tmp_path, POLICY)
    for name in ("job-a", "job-b"):
        living.run(name)
    living.at(60, **{"job-a": 45, "job-b": 45})
    with running(scheduler_app(living.service)) as scheduler:
        settings = DashboardSettings(access=AccessSettings(), reach=Reach(None, scheduler))
        with (
            running(build_app(house, settings)) as url,
            tab(opened, viewport={"width": 390, "height": 800}) as (page, wrong),
        ):
            page.on("dialog", lambda dialog: dialog.accept())
            page.goto(f"{url}/now?idle=1")
            row = page.locator("#now-reclaim tr", has_text="job-a")
            expect(row).to_contain_text("warned")
            assert page.evaluate("document.documentElement.scrollWidth") <= 390
            assert [
                one["nodes"][0]["html"][:200] for one in Axe().run(page, "#now-reclaim").response["violations"]
            ] == []
            row.get_by_role("button", name="Propose").press("Enter")
            expect(row).to_contain_text("waits for approval")
            expect(page.locator("#page")).to_be_focused()  # and on no button of another job
            expect(row.get_by_role("button", name="Propose")).to_have_count(0)
            row.get_by_role("button", name="Reclaim now").click()
            expect(row).to_contain_text("suspended")
            said = page.locator("#now-done p")  # as found: of a job that was cancelled nothing was said any more
            expect(said).to_contain_text(["job-a has been proposed", "job-a has been told to stop"])
            href = said.last.get_by_role("link", name="In the audit log").get_attribute("href")
            assert href is not None and "part=audit&find=job-a" in href
            until(lambda: living.status("job-a") == "stopping")
            living.over("job-a")
            row.get_by_role("button", name="Resume").click()
            expect(row).to_have_count(0)
            living.settle()
            assert living.status("job-a") == "running"
            assert wrong == []
            # The policy is taken back while the page is open.
            row = page.locator("#now-reclaim tr", has_text="job-b")
            page.reload()
            expect(row.get_by_role("button", name="Reclaim now")).to_be_visible()
            living.set_policies()
            row.get_by_role("button", name="Reclaim now").click()
            expect(row).to_contain_text("no idle policy applies to it")
            page.reload()
            expect(row).to_contain_text("nothing is done to it: no idle policy applies to it")
            expect(row.get_by_role("button", name="Reclaim now")).to_have_count(0)
            row.get_by_role("button", name="Keep").click()
            expect(row).to_contain_text("kept")
            assert living.status("job-b") == "running"
