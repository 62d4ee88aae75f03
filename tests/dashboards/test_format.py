"""Names, prices and months as pages show them."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import playwright
import pytest

from billing.exact import rounded
from dashboards import figures, grids, parts, said, states
from dashboards.filters import Address, Filters
from dashboards.format import (
    device_digits,
    device_name,
    duration,
    evened,
    fixed,
    gpu_count,
    money,
    money_alike,
    money_column,
    signed_hours,
    unbroken,
)
from dashboards.languages import language
from dashboards.periods import ClosedMonth
from tests.patience import PATIENCE_SECONDS

NUMBERS = Path(figures.__file__).parent / "assets" / "numbers.js"


def test_a_device_is_called_by_what_tells_it_apart() -> None:
    uuid = "b8f2943e-a3d7-4163-a478-5720b0d260fe"
    assert [device_name(f"{vendor}{uuid}") for vendor in ("", "GPU-", "MIG-")] == [
        "b8f2943e", "GPU-b8f2943e", "MIG-b8f2943e",
    ]  # fmt: skip
    for other in ("", "GPU-b", "0000:3b:00.0", f"{uuid}/1", f"x y-{uuid}"):
        assert device_name(other) == other
    assert [device_digits(one) for one in (f"GPU-{uuid}", uuid, "0000:3b:00.0")] == ["b8f2943e", "b8f2943e", ":3b:00.0"]
    assert device_digits(f"GPU-{uuid}::2") == "b8f2943e::2", "which of its device's shares"


def test_a_unit_of_two_words_stays_whole_without_a_number_too() -> None:
    """As found on a phone, in heads of tables: "kg" above "CO2e", "GPU" above "小时"."""
    assert unbroken("kg CO2e") == "kg\u00a0CO2e"
    assert unbroken("8,186 kg CO2e") == "8,186\u00a0kg\u00a0CO2e"
    assert unbroken("等待的 GPU 小时") == "等待的 GPU\u00a0小\u2060时"
    assert unbroken("12 GPU 小时") == "12\u00a0GPU\u00a0小\u2060时"
    heads = parts.table(["租户", "kg CO2e", "GPU-hours"], []).children.children[0].children.children
    assert [head.children for head in heads] == ["租户", "kg\u00a0CO2e", "GPU-\u2060hours"]


def test_a_text_that_wraps_keeps_an_amount_with_its_currency() -> None:
    """As found: "2,127.39" at the end of a line, "USD" on the next."""
    assert (
        unbroken("花费 2,127.39 USD，预期 824.96 USD（偏高）") == "花费 2,127.39\u00a0USD，预期 824.96\u00a0USD（偏高）"
    )
    assert "2\u00a0小\u2060时\u00a054\u00a0分" in unbroken("已等待 2 小时 54 分钟"), (
        "as found: 54 分钟 on the next line"
    )
    assert unbroken("目录价 $1.45/小时") == "目录价 $1.45/|小|时".replace("|", "\u2060"), "as found: 小时 alone"
    assert unbroken("$1.45/hour, 714/720 closed, mig/2g.20gb") == "$1.45/\u2060hour, 714/720 closed, mig/2g.20gb"
    assert unbroken("cost 2,127.39 USD on 28 devices") == "cost 2,127.39\u00a0USD on 28 devices"


def test_an_alert_s_english_text_keeps_its_numbers_with_their_units() -> None:
    """As found: "1" at the end of a line and "GPU" on the next, "22,000.00" and "USD", the day and its month."""
    text = "has kept 1 GPU idle for 2 h 5 min, since 30 Nov 2026 09:59 CET; 2,127.39 USD"
    kept = "has kept 1~GPU idle for 2~h~5~min, since 30~Nov 2026 09:59~CET; 2,127.39~USD".replace("~", "\u00a0")
    filters = Filters(Address("/"), "UTC", (), None)
    assert said.texts_of({"annotations": {"summary": text}}, filters, language("en")) == {"summary": kept}


def test_a_figure_that_is_an_interval_keeps_its_moments_whole() -> None:
    """As found: the expected start `30 Nov, 16:46 – 1 Dec,` and, below it, `13:04`."""
    shown = parts.headline([parts.Figure("Expected start", "30 Nov, 16:46 – 1 Dec, 13:04")]).to_plotly_json()
    assert "30\u00a0Nov,\u00a016:46 – 1\u00a0Dec,\u00a013:04" in json.dumps(
        shown, default=lambda part: part.to_plotly_json(), ensure_ascii=False
    )


def test_a_change_of_money_has_its_sign() -> None:
    change, cost = (grids.money("a", "A", "USD", plus=plus)["valueFormatter"]["function"] for plus in ("+", ""))
    assert "params.value > 0 ? '+$' : '$'" in change and "'+" not in cost


def test_a_change_of_hours_has_the_sign_of_one_of_money() -> None:
    assert [signed_hours(value) for value in (-510.2, -0.04, 0.0, 12.5)] == ["−510", "−0.04", "0", "+12.5"]


def test_a_duration_has_units_of_the_page_s_language() -> None:
    """As found: "3.3 d" and "0 s" on Chinese pages, beside hours that were "小时"."""
    seconds = (45, 720, 12_600, 181_440, None)
    assert [duration(one, language("en")) for one in seconds] == ["45 s", "12 min", "3.5 h", "2.1 d", "–"]
    chinese = [duration(one, language("zh")) for one in seconds]
    assert chinese == ["45\u00a0秒", "12\u00a0分钟", "3.5\u00a0小时", "2.1\u00a0天", "–"]
    exact = [3600, 3660, 86400, 28 * 86400]
    assert [duration(one, language("en")) for one in exact] == ["1 h", "1.0 h", "24 h", "28 d"]
    assert [duration(one, language("en"), whole=False) for one in exact] == ["1.0 h", "1.0 h", "24.0 h", "28.0 d"]
    shown = grids.duration(language("zh"), "a", "A")["valueFormatter"]["function"]
    assert all(f"'{{n}}\u00a0{unit}'" in shown for unit in ("秒", "分钟", "小时", "天"))


def test_a_count_of_gpus_has_two_decimals_where_it_has_any() -> None:
    assert [gpu_count(one) for one in (0, 1, 1 / 7, 4.643, 47.96, 0.004, 1234.5)] == [
        "0", "1", "0.14", "4.64", "47.96", "0.004", "1,234",
    ]  # fmt: skip


def test_the_period_that_is_offered_is_a_month_of_the_billing_zone() -> None:
    """As found: where November begins at 23:00 UTC, the books went to October, which the link did not show."""
    months = [ClosedMonth("2026-11", 3, *(datetime(2026, *at, tzinfo=UTC) for at in ((10, 31, 23), (11, 1, 1))))]
    filters = Filters(Address(), "Europe/Berlin", months, None)
    page: Any = states.no_books(filters, {}, language("en"))
    assert "cover November 2026 to November 2026" in str(page) and "Show November 2026" in str(page)


def test_amounts_of_one_sentence_have_cents_alike() -> None:
    """As found: "expected $424 ($20.54 – $828)"."""
    assert money_alike([424.4, 20.54, 828.3], "USD") == ["$424", "$21", "$828"]
    assert money_alike([42.4, 20.54, -8.3], "USD") == ["$42.40", "$20.54", "−$8.30"]
    assert money_alike([5, -20_000_000], "USD") == ["$5.00", "−$20.00 M"]


def test_amounts_of_one_column_have_cents_or_none_has() -> None:
    """As found: "$148", "$66.00", "$214" below each other; "−$1,069", "−$55.76" in one chart."""
    assert money_column([148.2, None, -65.999], "USD") == ["$148", "–", "−$66"]
    assert money_column([48.2, 0, 65.99], "USD") == ["$48.20", "$0", "$65.99"]


@pytest.mark.parametrize(("amount", "shown"), [("14.575", "$14.58"), ("14.565", "$14.56"), ("0.125", "$0.12")])
def test_half_a_cent_is_rounded_as_on_documents(amount: str, shown: str) -> None:
    """As found: $14.58 in a headline, which has Decimals, above $14.57 in its table and chart."""
    exact = Decimal(amount)
    sums = float(exact) - 1e-13  # as floats add up
    assert {money(exact, "USD"), money(float(exact), "USD"), money(sums, "USD")} == {shown}
    assert rounded(Fraction(exact), 2) == Decimal(shown[1:])
    chart = figures.made([{"type": "bar", "y": [sums, None], "hovertemplate": "%{y:,.2f}"}], language("en"))
    drawn, unknown = chart["data"][0]["y"]
    assert f"{drawn:.2f}" == shown[1:] and unknown is None


def test_a_chart_shows_halves_as_tables_do_and_is_drawn_as_high_as_they_are() -> None:
    """As found: of parts of 0.25 and 1.95, rounded, a stack did not reach its capacity."""
    seed = random.randrange(1 << 32)
    draw = random.Random(seed)
    for _ in range(3000):
        digits = draw.choice((0, 1, 2))
        value = draw.choice((-1, 1)) * (draw.randrange(1 << 20) + draw.choice((0.0, 0.5, draw.random()))) / 10**digits
        drawn = evened(value, digits)
        assert abs(drawn - value) < 1e-5, seed
        plotly = Decimal(drawn).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
        assert plotly == Decimal(fixed(value, digits).replace(",", "").replace("−", "-")), (value, digits, seed)


def test_the_browser_writes_numbers_as_pages_do() -> None:
    """Halves among them of cents, of tenths of hours (2.25) and of whole ones; as Decimals, too."""
    draw = random.Random(20261130)
    halves = [Decimal(draw.randrange(10**9) * 10 + 5).scaleb(-draw.randint(1, 5)) for _ in range(1500)]
    others = [Decimal(draw.randrange(10 ** draw.randint(1, 15))).scaleb(-draw.randint(0, 9)) for _ in range(1500)]
    asked = [(draw.choice((1, -1)) * one, draw.randint(0, 3)) for one in [*halves, *others]]
    floats = [fixed(float(one), digits) for one, digits in asked]
    assert browsers([(float(one), digits) for one, digits in asked]) == floats
    assert [fixed(one, digits) for one, digits in asked] == floats


def browsers(numbers: Sequence[tuple[float, int]]) -> Any:
    code = f"""globalThis.window = globalThis; require({json.dumps(str(NUMBERS))});
        const asked = JSON.parse(require("fs").readFileSync(0));
        console.log(JSON.stringify(asked.map(one => dashAgGridFunctions.fixed(...one))));"""
    node = str(Path(playwright.__file__).with_name("driver") / "node")
    done = subprocess.run([node, "-e", code], input=json.dumps(numbers), capture_output=True, text=True, check=True,
                          timeout=PATIENCE_SECONDS)  # fmt: skip
    return json.loads(done.stdout)
