"""What to do about an XID: NVIDIA's recommended first action for each code, in our words.

Source: the Xid catalog, https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html (its column of immediate
actions, for A100 and H100). collectors.nvml.xids has what each code means.
"""

from __future__ import annotations

from collections.abc import Mapping

from alerts.finding_words import xid_meaning

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


_CHINESE: Mapping[str, str] = {
    "RESTART_APP": "重启应用；若在其他 GPU 上也再现，在应用中查找故障",
    "RESET_GPU": "排空该 GPU 并复位（nvidia-smi --gpu-reset，或重启节点）；若再现，运行现场诊断并申请更换",
    "RESTART_NODE": "排空节点并重启；若再现，重新插拔或更换该 GPU",
    "CHECK_NVLINK": "查看 nvidia-smi nvlink -e 和 fabric manager 的日志；复位该链路的 GPU，若再现则检查线缆和交换机",
    "CHECK_ECC": "排空该 GPU 并复位：错误未被隔离；若同时有 XID 63 或 64，查看行重映射"
    "（nvidia-smi -q -d ROW_REMAPPER）",
    "FOLLOW_MESSAGE": "按消息所述处理（无、排空、复位或重启）：由驱动选定",
    "CONTACT_SUPPORT": "排空该 GPU，保存 nvidia-bug-report.sh 的输出并联系厂商支持",
    "IGNORE": "目前无需处理；查看紧接其前的日志",
}
assert _CHINESE.keys() == ADVICE.keys()


def advice(code: int, language: str = "en") -> str:
    """What the code means and what to do first."""
    code = int(code)
    action = ACTIONS.get(code, "CONTACT_SUPPORT")
    said = f"；{_CHINESE[action]}" if language == "zh" else f"; {ADVICE[action]}"
    return xid_meaning(code, language) + said


def codes(*actions: str) -> list[int]:
    """The codes with these first actions, in order: what the rules' lists are checked against."""
    return sorted(code for code, action in ACTIONS.items() if action in actions)
