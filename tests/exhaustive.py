"""What `make check` runs and `make test` leaves out: what is compared with golden files, random histories and worlds,
kills, real peers, and every command of long lists. A file, or a test of one, a line."""

from __future__ import annotations

EXHAUSTIVE = (
    "tests/access/test_upgrade.py::test_an_upgrade_that_is_killed",
    "tests/alerts/test_kill.py",
    "tests/alerts/test_real_alertmanager.py",
    "tests/alerts/test_simulated_fleet.py",
    "tests/api/sql/test_worker.py",
    "tests/billing/test_bit_by_bit.py",
    "tests/billing/test_books.py",
    "tests/billing/test_carried.py",
    "tests/billing/test_focus_fleet.py",
    "tests/billing/test_golden_",
    "tests/billing/test_histories.py",
    "tests/billing/test_issued_fence.py",
    "tests/billing/test_kill.py",
    "tests/billing/test_rederive.py",
    "tests/billing/test_tampering.py",
    "tests/billing/test_verify_commands.py",
    "tests/collectors/exporters/test_prometheus.py",
    "tests/collectors/kubernetes/test_real_server.py",
    "tests/collectors/receivers/test_order.py",
    "tests/collectors/receivers/test_real_prometheus.py",
    "tests/collectors/receivers/test_whole_day.py",
    "tests/collectors/slurm/test_lives.py",
    "tests/collectors/slurm/test_real_slurm.py",
    "tests/dashboards/pages/test_page_by_page.py",
    "tests/gpuledger/test_agents_scene.py",
    "tests/gpuledger/test_answers.py::test_a_limit_cuts",
    "tests/gpuledger/test_answers.py::test_an_answer_has_room",
    "tests/gpuledger/test_answers.py::test_what_is_cut",
    "tests/gpuledger/test_from_prometheus.py::test_a_kill_between",
    "tests/gpuledger/test_from_prometheus.py::test_a_long_history",
    "tests/gpuledger/test_from_prometheus.py::test_a_recorded_day",
    "tests/gpuledger/test_scheduler_command.py::test_a_scheduler_killed",
    "tests/gpuledger/test_typed_documents.py::test_each_command_line",
    "tests/ingest/test_forged_pushes.py",
    "tests/ingest/test_issue_race",
    "tests/ingest/test_kill.py",
    "tests/ingest/test_spool_kill.py",
    "tests/ingest/test_two_servers.py",
    "tests/releases/",
    "tests/scheduler/cycle/test_worlds.py",
    "tests/scheduler/kubernetes/test_real_server.py",
    "tests/scheduler/live/test_cycles.py",
    "tests/scheduler/simulate/",
    "tests/scheduler/test_fragmentation_experiment.py",
    "tests/scheduler/test_golden.py",
    "tests/warehouse/test_backup.py",
    "tests/warehouse/test_leftovers.py::test_what_a_killed_process",
)
"""How the names of such tests begin."""


def is_exhaustive(name: str) -> bool:
    return name.startswith(EXHAUSTIVE)
