"""What collectors found on devices and nodes, in another language.

`findings` holds a name and an English message with its numbers. A page or an alert translates both when it shows them:
the sentences of collectors phrase by phrase, as scheduler.words does. What is in no phrase, such as a driver's or an
API server's own words, stays as it is.
"""

from __future__ import annotations

import re

from collectors.nvml.xids import meaning
from warehouse.phrases import Moment, Phrases, with_moments

NAMES = {
    "xid": "XID 错误",
    "gpu_lost": "GPU 丢失",
    "reset_required": "需要复位",
    "metric_missing": "缺少指标",
    "no_permission": "权限不足",
    "process_without_allocation": "进程没有分配",
    "allocation_without_device": "分配的设备不存在",
    "device_unhealthy": "设备不健康",
    "spool_overflow": "磁盘缓冲队列溢出",
    "spool_damaged": "磁盘缓冲队列损坏",
    "batch_refused": "批次被拒绝",
    "node_unavailable": "节点不可用",
    "inventory_changed": "设备清单变化",
    "clock_jumped": "时钟跳变",
    "source_unreachable": "数据源无法访问",
    "object_invalid": "对象无效",
    "unit_undecided": "单位未定",
    "unit_changed": "单位变化",
    "metric_jumped": "指标突变",
    "partition_untold": "未报告分区",
    "record_unreadable": "记录不可读",
    "record_missing": "缺少记录",
    "end_changed": "结束时间变化",
    "end_unknown": "结束时间未知",
    "profile_unknown": "未知规格",
    "delivery_refused": "投递被拒绝",
}
"""Of findings (docs/telemetry.md)."""
REFUSALS = {
    "ends_before_it_starts": "结束早于开始",
    "more_units_than_device": "超过设备的单元数",
    "no_free_device": "节点上没有空闲设备",
    "units_already_claimed": "单元已被占用",
    "unknown_device": "未知设备",
}
"""Why a claim is refused (billing.close)."""
XIDS = {
    13: "图形引擎异常，多为应用自身的错误",
    31: "应用的内存缺页错误",
    32: "推送缓冲流无效或损坏",
    38: "驱动固件错误",
    43: "应用的通道被停止",
    45: "应用的通道被移除，多由另一个错误或应用结束引起",
    48: "不可纠正的双比特 ECC 错误",
    61: "内部微控制器断点",
    62: "内部微控制器停止",
    63: "ECC 错误后重映射了一行或停用了一页",
    64: "重映射行或停用页失败",
    68: "视频处理器异常",
    69: "图形引擎类错误",
    74: "NVLink 错误",
    79: "GPU 已从总线上掉落",
    92: "大量已纠正的单比特 ECC 错误",
    94: "已隔离的 ECC 错误：遇到它的应用结束，其他应用继续",
    95: "未隔离的 ECC 错误：必须复位 GPU",
    109: "上下文切换超时",
    119: "GPU 的系统处理器没有响应",
    120: "GPU 的系统处理器出错",
    121: "芯片间链路上已纠正的错误",
    136: "链路训练失败",
    137: "应用的 NVLink 权限错误",
    140: "未恢复的 ECC 错误",
    143: "GPU 初始化失败",
    149: "需要复位的 NVLink 错误",
    154: "驱动要求执行恢复操作",
}
"""By code, as collectors.nvml.xids.MEANINGS."""
UNKNOWN_XID = "不在已知 XID 列表中"

_UNDECIDED = Phrases((
    (r"^(.+) in one answer$", r"一次应答中有 \1"),
    (r"^its numbers fit (.+)$", r"其数值符合 \1"),
    (r"^it was (\S+), and its rate is that of (\S+)$", r"原为 \1，而其速率符合 \2"),
    (r" and ", " 和 "),
))  # fmt: skip


_ACTIONS = {
    "reset the GPU": "复位该 GPU",
    "reboot the node": "重启节点",
    "drain peer-to-peer traffic": "排空点对点流量",
    "drain, then reset the GPU": "排空该 GPU，然后复位",
}
"""As nvml.gauges.ACTIONS."""
_STATES = {"available": "可用", "unavailable": "不可用", "removed": "已移除"}


def _named(name: str) -> str:
    return "（无名）" if name == "(without a name)" else name


_CHINESE = Phrases((
    # The driver and its devices (nvml.collector, nvml.inventory).
    (r"^the clock went from (\S+) to (\S+): averages and counters start anew$",
     r"时钟从 \1 跳到 \2：平均值和计数器重新开始"),
    (r"^the driver asks: (.+)$", lambda found: f"驱动要求：{_ACTIONS.get(found[1], found[1])}"),
    (r"^the driver does not let this process read (.+)$", r"驱动不允许此进程读取 \1"),
    (r"^the driver does not let this process wait for XIDs$", "驱动不允许此进程等待 XID"),
    (r"^expected of (\S+), (\w+), and has no value: (.+)$", r"\1（\2）应有而没有值：\3"),
    (r"; XIDs from before the agent's start are not known$", "；采集代理启动之前的 XID 未知"),
    (r"^/proc is not the host's, so processes have no owners: set hostPID or mount the host's /proc$",
     "/proc 不是主机的，因此进程没有所有者：设置 hostPID 或挂载主机的 /proc"),
    (r"^added$", "已添加"),
    (r"^removed$", "已移除"),
    (r"\bMIG on\b", "已启用 MIG"),
    (r"\bMIG off\b", "已停用 MIG"),
    (r"\bunits (\d+) -> (\d+)", r"单元 \1 -> \2"),
    (r"\bindex (\d+) -> (\d+)", r"序号 \1 -> \2"),
    (r"\b(available|unavailable|removed) -> (available|unavailable|removed)\b",
     lambda found: f"{_STATES[found[1]]} -> {_STATES[found[2]]}"),
    # Processes and allocations (attribution).
    (r"^pid (\d+) \((.*)\) of the host is on it without an allocation$", r"主机的进程 \1（\2）在其上运行，但没有分配"),
    (r"^pid (\d+) \((.*)\) of a login session is on it without an allocation$",
     r"登录会话的进程 \1（\2）在其上运行，但没有分配"),
    (r"^pid (\d+) \((.*)\) of container (\S+), which is no pod's, is on it without an allocation$",
     r"不属于任何 pod 的容器 \3 的进程 \1（\2）在其上运行，但没有分配"),
    (r"^pid (\d+) \((.*)\) of (.+?) is on it without an allocation$", r"\3 的进程 \1（\2）在其上运行，但没有分配"),
    (r"^an allocation names (.+), which this node does not have$", r"一项分配指名 \1，而此节点没有它"),
    (r"^(\S+) names (.+), which this node does not have$", r"\1 指名 \2，而此节点没有它"),
    (r"^(\d+) of (\d+) (\S+) are allocatable$", r"\2 个 \3 中有 \1 个可分配"),
    # Objects of Kueue and Volcano that cannot be read (kubernetes.queues).
    (r"^(Workload|LocalQueue|ClusterQueue|PodGroup|Queue) (\S+|\(without a name\)): (?=has no |how many GPUs |.* is )",
     lambda found: f"{found[1]}{'（无名）' if found[2].startswith('(') else f' {found[2]}'}："),
    (r"(?<=：)has no uid, or no time of creation(?= \(and|$)", "没有 uid 或创建时间"),
    (r"(?<=：)how many GPUs a (\S+) is, depends on the node: its quota is not known in GPUs(?= \(and|$)",
     r"一个 \1 相当于多少 GPU 取决于节点：以 GPU 计的配额未知"),
    (r"(?<=：)count of pod set (\S+) is (.+), not a number from 0(?= \(and|$)",
     r"pod 集 \1 的 count 为 \2，不是从 0 起的数"),
    (r"(?<=：)(\S+) of (\S+) in flavor (\S+|\(without a name\)) is (.+), not a quantity from 0(?= \(and|$)",
     lambda found: f"flavor {_named(found[3])} 中 {found[2]} 的 {found[1]} 为 {found[4]}，不是从 0 起的数量"),
    (r"(?<=：)(\S+) of (\S+) in (\S+) of (\S+|\(without a name\)) is (.+), not a quantity from 0(?= \(and|$)",
     lambda found: f"{_named(found[4])} 的 {found[3]} 中 {found[2]} 的 {found[1]} 为 {found[5]}，不是从 0 起的数量"),
    (r"(?<=：)(\S+) of (\S+) is (.+), not a quantity from 0(?= \(and|$)", r"\2 的 \1 为 \3，不是从 0 起的数量"),
    (r"(?<=：)(\S+) of flavor (\S+|\(without a name\)) is (.+), not a list of objects(?= \(and|$)",
     lambda found: f"flavor {_named(found[2])} 的 {found[1]} 为 {found[3]}，不是对象列表"),
    (r"(?<=：)(\S+) of (\S+) of (\S+|\(without a name\)) is (.+), not a list of objects(?= \(and|$)",
     lambda found: f"{_named(found[3])} 的 {found[2]} 的 {found[1]} 为 {found[4]}，不是对象列表"),
    (r"(?<=：)(\S+) of (\S+) is (.+), not a list of objects(?= \(and|$)", r"\2 的 \1 为 \3，不是对象列表"),
    (r"(?<=：)(\S+) is not a list of objects(?= \(and|$)", r"\1 不是对象列表"),
    (r"(?<=：)(\S+) is not an object(?= \(and|$)", r"\1 不是对象"),
    (r"(?<=：)(\S+) is (.+), not an object(?= \(and|$)", r"\1 为 \2，不是对象"),
    (r"(?<=：)(\S+) is (.+), not a whole number from 1(?= \(and|$)", r"\1 为 \2，不是从 1 起的整数"),
    (r"(?<=[\u4e00-\u9fff]) \(and (\d+) more\)$", r"（另有 \1 个问题）"),
    # Exporters and their units (exporters, receivers).
    (r"^the exporter names it no longer$", "导出器不再列出它"),
    (r"^(.+?) of (.+): the unit is not known: (.+); left blank$",
     lambda found: f"{found[2]} 的 {found[1]}：单位未知（{_UNDECIDED.translated(found[3])}）；留空"),
    (r"^(.+) of (.+): was (\S+), is (\S+) now; last shown to be \S+ at ([^\s,]+)",
     r"\2 的 \1：原为 \3，现为 \4；最近一次证实为 \3 是在 \5"),
    (r", and at least (\d+) readings since were taken for (\S+) and may be wrong$",
     r"，此后至少有 \1 个读数按 \2 处理，可能有误"),
    (r"^the exporter 的 ", "导出器的 "),
    (r"^(.+) and (\d+) more 的 ", r"\1 及另外 \2 个的 "),
    (r"^(\S+) of (\d+) devices became (\S+) times what it was, by their median, as their exporter was upgraded "
     r"\((.+)\): its unit may have changed$",
     r"导出器升级（\4）时，\2 个设备的 \1 变为原来的 \3 倍（中位数）：其单位可能变了"),
    (r"^only labels of pods say of which partition its series are, which their users can write: they are left out\. "
     r"Switch the exporter's pod labels off, or let it show the whole device too \((.+)\)$",
     r"只有 pod 的标签说明其序列属于哪个分区，而这些标签可由用户改写，因此不予采用。"
     r"请关闭导出器的 pod 标签，或让它也给出整个设备（\1）"),
    (r"^the exporter: ", "导出器："),
    (r": its series have ended$", "：其序列已结束"),
    (r": nothing of it was pushed for (\d+) s$", r"：已有 \1 秒没有推送任何数据"),
    (r"^(.+) has not answered for several intervals$", r"\1 已有数个间隔没有响应"),
    (r"^the watch was interrupted from (\S+) to (\S+): (\d+) pods ended unseen; what was both bound and gone in "
     r"between is not known$", r"监听在 \1 至 \2 中断：期间有 \3 个 pod 结束而未被看到；其间绑定又消失的未知"),
    # What an agent could not deliver (agent.outbox).
    (r"^the (spool|disk) was full for too long: (.+) are lost$",
     lambda found: f"{'磁盘缓冲队列' if found[1] == 'spool' else '磁盘'}写满时间过长，以下已丢失：{found[2]}"),
    (r"^the store refused (.+); they are set aside in the spool$", r"存储库拒绝了以下内容，已在磁盘缓冲队列中另存：\1"),
    (r"^the spool's file was damaged at (\S+): what waited in it was set aside$",
     r"磁盘缓冲队列的文件于 \1 损坏：其中等待的内容已另存"),
    (r"^(\d+ rows of .+) were damaged on disk and are lost$", r"以下内容在磁盘上损坏，已丢失：\1"),
    (r"(\d+) rows of (\w+) in (\d+) batches of (\S+) to (\S+)$", r"\3 个批次中的 \1 行 \2（\4 至 \5）"),
    # Slurm's records (slurm.rows, slurm.collect, slurm.jobs) and its sources (slurm.sources).
    (r"^accounting has no record of it, or of its run: start and end are billed as the controller reported them$",
     "记账中没有它或这次运行的记录：开始和结束按控制器的报告计费"),
    (r"^accounting has lost a record of it: what it held after (.+), unless the controller said so, is not billed$",
     r"记账丢失了它的一条记录：\1 之后的占用，除非控制器报告过，否则不计费"),
    (r"^accounting takes it for running, and the controller does not know it: billed until accounting has an end\. "
     r"Check: (.+)$", r"记账认为它仍在运行，而控制器不知道它：计费到记账给出结束为止。检查：\1"),
    (r"^accounting has no end of its run that began at (.+): billed until (.+), as the controller reported or was last "
     r"asked$", r"记账中没有它于 \1 开始的运行的结束：按控制器的报告或最后一次查询，计费到 \2"),
    (r"^Slurm reported its end as (.+), and reports (.+) now: the earlier one is billed$",
     r"Slurm 曾报告其结束为 \1，现报告为 \2：按较早者计费"),
    (r"^the MIG profile of its GPUs is unknown, the node's smallest was assumed: name the types in (\S+), "
     r"such as (.+)$",
     r"其 GPU 的 MIG 规格未知，假定为该节点最小的规格：请在 \1 中列出类型，例如 \2"),
    (r"^(\S+), index (\d+): Slurm says (\d+) of (\d+) (\w+), the inventory (.+) units$",
     r"\1 的序号 \2：Slurm 报告 \4 个 \5 中的 \3 个，设备清单为 \6 个单元"),
    (r"^(\S+), index (\d+): Slurm says (.+), the inventory (.+) units$",
     r"\1 的序号 \2：Slurm 报告 \3，设备清单为 \4 个单元"),
    (r"^(\w+): not reported how many are a GPU$", r"\1：未报告多少个等于一个 GPU"),
    (r"^(\w+): a record: ", r"\1：一条记录："),
    (r"^(\w+): job (\S+): ", r"\1：作业 \2："),
    (r"^(\w+): (\d+) more records$", r"\1：另有 \2 条记录"),
    (r"^(\S+): cannot be run: (.+)\. Install Slurm's commands, or use REST$",
     r"\1：无法运行：\2。请安装 Slurm 的命令，或使用 REST"),
    (r"^(\S+): no answer in (\S+) s\. Is slurmdbd busy\?$", r"\1：\2 秒内没有应答。slurmdbd 是否繁忙？"),
    (r"^(\S+): exit status (\d+): (.+)\. Try the command by hand$", r"\1：退出状态 \2：\3。请手动运行该命令"),
    (r"^(\S+): no answer: (.+)\. Check the address and the token file$", r"\1：没有应答：\2。请检查地址和令牌文件"),
    (r"^(\S+): (HTTP \d+: .+)\. Renew the token: (.+)$", r"\1：\2。请更新令牌：\3"),
    (r"^(\S+): (HTTP \d+: .+)\. See slurmrestd's log$", r"\1：\2。请查看 slurmrestd 的日志"),
    (r"^(\S+): (HTTP \d+: .+)\. It offers (.+): name one with (--rest-version)$", r"\1：\2。它提供 \3：请用 \4 指定"),
    (r"^(\S+): no header with JobID and State: (.+)\. Use (--parsable2), without (--noheader)$",
     r"\1：没有含 JobID 和 State 的表头：\2。请使用 \3，不要用 \4"),
    # What an agent lacks (agent.privileges), and a driver that is away (nvml.library).
    (r"\. Install the NVIDIA driver or mount (\S+) \((\w+): (.+)\)$", r"。请安装 NVIDIA 驱动或挂载 \1（\2：\3）"),
    (r"; without it nothing is known of NVIDIA devices\. Next: install the driver, run the container with the NVIDIA "
     r"runtime, or set (.+)$", r"；因此对 NVIDIA 设备一无所知。下一步：安装驱动，用 NVIDIA 运行时启动容器，或设置 \1"),
    (r"; without it nothing is delivered; rows wait in the spool\. Next: ",
     "；因此什么都不投递，行在磁盘缓冲队列中等待。下一步："),
    (r"; without it this node runs no jobs\. Next: ", "；因此此节点不运行作业。下一步："),
    (r" is open to others; everybody on this node can read it, or put another in its place\. Next: ",
     " 对他人开放；此节点上任何人都能读取或替换它。下一步："),
    (r" is not the host's, or hides its processes; without it processes have no owners, and who used a shared device "
     r"is unknown\. Next: hostPID: true in a pod, or mount the host's /proc and set (.+)$",
     r" 不是主机的，或隐藏了其进程；因此进程没有所有者，共享设备由谁使用未知。"
     r"下一步：在 pod 中设置 hostPID: true，或挂载主机的 /proc 并设置 \1"),
    (r"; without it which pod holds which device is unknown\. Next: ", "；因此哪个 pod 占用哪个设备未知。下一步："),
    (r"; without it XIDs from before the start are unknown\. Next: ", "；因此启动之前的 XID 未知。下一步："),
    (r"^(\w+): there is no (\S+)；", r"\1：没有 \2；"),
    (r"下一步：put the token into that file$", "下一步：把令牌放入该文件"),
    (r"下一步：let the agent's user read it$", "下一步：让采集代理的用户可以读取它"),
    (r"下一步：is the kubelet running\?$", "下一步：检查 kubelet 是否在运行"),
    (r"下一步：mount (\S+) into the agent's container and let it run as root$",
     r"下一步：把 \1 挂载到采集代理的容器中，并让它以 root 运行"),
    (r"下一步：run as root with CAP_SYSLOG, or set (.+)$", r"下一步：以 root 和 CAP_SYSLOG 运行，或设置 \1"),
    (r"下一步：set (sources\..+)$", r"下一步：设置 \1"),
    (r" may not be opened；", " 无法打开；"),
    # What an alert says of where activity was seen (usage_without_allocation.sql).
    (r"^unattributed activity$", "未归属的活动"),
    (r"^samples$", "采样"),
    # By what an allocation is known to be idle (idle_holder.sql).
    (r"^nothing used, confirmed by the driver(?=, |$)", "没有使用，驱动已证实"),
    (r"(^|, )no engine active(?=, |$)", lambda found: f"{'，' if found[1] else ''}没有引擎活动"),
    (r"(^|, )power flat$", lambda found: f"{'，' if found[1] else ''}功率平稳"),
))  # fmt: skip
_XID = re.compile(r"^XID (\d{1,9})(?:: (.*))?$", re.DOTALL)
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")


def xid_meaning(code: int, language: str) -> str:
    return XIDS.get(code, UNKNOWN_XID) if language == "zh" else meaning(code)[0]


def found(text: str, code: str, moment: Moment | None = None) -> str:
    """A finding's name or message in a language ('zh'; any other: as it is).

    moment: how instants within it are written; None: as they are, in UTC.
    """
    if code == "zh" and text:
        text = NAMES.get(text) or REFUSALS.get(text) or _xid(text) or _sentence(text)
    return with_moments(text, _INSTANT, moment)


def _xid(text: str) -> str:
    """A message about an XID: the meaning, and the kernel's own words behind it; empty if it is none."""
    one = _XID.match(text)
    if one is None:
        return ""
    number, rest = int(one[1]), one[2] or ""
    own = meaning(number)[0]
    if rest.startswith(own):
        detail = rest.removeprefix(own).strip()
        return f"XID {number}：{xid_meaning(number, 'zh')}" + (f"（{detail[1:-1]}）" if detail else "")
    return f"XID {number}：{rest}" if rest else text


def _sentence(text: str) -> str:
    """In no phrase: perhaps several messages in one."""
    said = _CHINESE.translated(text)
    if said == text and "; " in text:
        return "；".join(_sentence(one) for one in text.split("; "))
    return said
