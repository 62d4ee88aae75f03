"""What to do about an XID: NVIDIA's recommended first action for each code, in our words.

Source: the Xid catalog, https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html (its column of immediate
actions, for A100 and H100). collectors.nvml.xids has what each code means.
"""

from __future__ import annotations

from collections.abc import Mapping

from collectors.nvml.xids import meaning

ADVICE: Mapping[str, str] = {
    "RESTART_APP": "restart the application; if it comes back on other GPUs too, look for the fault in the application",
    "RESET_GPU": "drain the GPU and reset it (nvidia-smi --gpu-reset, or restart the node); if it comes back, run the "
    "field diagnostics and ask for a replacement",
    "RESTART_NODE": "drain the node and restart it; if it comes back, reseat or replace the GPU",
    "CHECK_NVLINK": "look at nvidia-smi nvlink -e and at the fabric manager's log; reset the GPUs of the link, and "
    "check cables and switches if it comes back",
    "CHECK_ECC": "drain the GPU and reset it: the error was not contained; with XID 63 or 64 beside it, look at the "
    "row remapper (nvidia-smi -q -d ROW_REMAPPER)",
    "FOLLOW_MESSAGE": "do what the message says (none, drain, reset or restart): the driver chose it",
    "CONTACT_SUPPORT": "drain the GPU, keep nvidia-bug-report.sh's output and ask the vendor's support",
    "IGNORE": "nothing now; look at what was logged just before it",
}
ACTIONS: Mapping[int, str] = {
    13: "RESTART_APP",
    31: "RESTART_APP",
    32: "RESTART_APP",
    38: "CONTACT_SUPPORT",
    43: "RESTART_APP",
    45: "IGNORE",
    48: "CHECK_ECC",
    61: "RESET_GPU",
    62: "RESET_GPU",
    63: "IGNORE",
    64: "RESET_GPU",
    68: "RESTART_APP",
    69: "RESTART_APP",
    74: "CHECK_NVLINK",
    79: "RESTART_NODE",
    92: "IGNORE",
    94: "RESTART_APP",
    95: "RESET_GPU",
    109: "RESET_GPU",
    119: "RESET_GPU",
    120: "RESET_GPU",
    121: "IGNORE",
    136: "RESET_GPU",
    137: "RESTART_APP",
    140: "RESET_GPU",
    143: "RESET_GPU",
    149: "CHECK_NVLINK",
    154: "FOLLOW_MESSAGE",
}
"""By code; one that is not listed is for the vendor."""


def advice(code: int) -> str:
    """What the code means and what to do first."""
    code = int(code)
    return f"{meaning(code)[0]}; {ADVICE[ACTIONS.get(code, 'CONTACT_SUPPORT')]}"


def codes(*actions: str) -> list[int]:
    """The codes with these first actions, in order: what the rules' lists are checked against."""
    return sorted(code for code, action in ACTIONS.items() if action in actions)
