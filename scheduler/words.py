"""What the scheduler says of jobs, in another language.

Events and states hold the English text with its numbers and names. A page translates it when it shows it: phrase by
phrase, as they are written in cycle/reasons.py, placement/reasons.py, cycle/plan.py, live/service.py and live/idle.py.
What is in no phrase, such as the words of another scheduler, stays as it is.
"""

from __future__ import annotations

import re

from warehouse.phrases import Moment, Phrases, with_moments

CAUSES = {
    "reserved": "已预留",
    "in maintenance": "维护中",
    "not ready": "未就绪",
    "of another pool": "属于其他资源池",
    "without the labels": "缺少标签",
    "with a taint that is not tolerated": "有不能容忍的污点",
    "short of CPU": "缺 CPU",
    "short of memory": "缺内存",
    "short of cards": "缺 GPU",
    "of another model": "型号不同",
    "without that MIG profile or share": "没有该 MIG 规格或份额",
    "larger than limits allow": "超过上限",
    "in use": "已被占用",
    "short of units": "缺单元",
    "without a legal MIG start": "没有合法的 MIG 起点",
    "free on a node that does not fit": "空闲但所在节点不合适",
    "would do": "可用",
}
"""Of nodes and devices (placement.reasons)."""
FACTS = {"samples": "采样", "events": "事件", "devices": "设备", "service_levels": "服务等级", "metrics": "指标",
         "findings": "发现", "ledger": "账本"}  # fmt: skip

CODES = {
    "UnknownQueue": "未知队列", "ParentQueue": "上级队列", "PoolNotNamed": "未指定资源池",
    "ExceedsMaxQuota": "超过最大配额", "WaitingForQuota": "等待配额",
    "NotPreemptibleBeyondGuarantee": "不可抢占且超出保障", "KeptForOthers": "留给他人", "Priority": "优先级",
    "Dependency": "依赖", "DependencyFailed": "依赖失败", "VictimsProtected": "可抢占者受保护",
    "WaitBoundExceeded": "超过等待上限", "ExpectedStart": "预计开始", "NearestFit": "最接近的可行申请",
    "NeverFits": "永远放不下", "InsufficientCapacity": "容量不足", "TopologyPlacementFailed": "拓扑放置失败",
    "PendingEvaluation": "等待评估", "Held": "已保留", "Suspended": "已暂停", "CannotRun": "无法运行",
    "Misconfigured": "配置有误", "Requeued": "重新排队", "Resumed": "已恢复运行", "Retried": "已重试",
    # By which right somebody was preempted, and why an attempt ended or changed its size.
    "ReclaimLentQuota": "回收借出的配额", "ReclaimQueueGuarantee": "回收队列的保障", "FairShare": "公平份额",
    "QueueFairShare": "队列的公平份额", "ElasticSurplus": "弹性作业的多余部分", "PriorityInQueue": "队列内优先级",
    "PriorityInTenant": "租户内优先级", "PriorityAcrossQueues": "跨队列优先级", "NodeLost": "节点丢失",
    "Cancelled": "已取消", "TimeLimit": "达到时限", "ScaledDown": "已缩减", "ExitStatus": "退出状态",
    "StartFailed": "启动失败", "LeaseExpired": "租约到期", "IdleReclaimed": "闲置被回收", "Rescaled": "已调整副本数",
    "ScaledByPolicy": "按策略伸缩", "Completing": "正在完成",
}  # fmt: skip
"""Of reasons; Slurm's and Kubernetes' own stay as they are, but for those that are called alike."""

_DONE = {"made smaller": "缩减", "suspended": "挂起", "cancelled": "取消"}
_STEPS = (
    (r"so it is DONE(?=[; ]|$)", "因此做"),
    (
        r"if it stays idle, it is to be DONE in (\w+) at the earliest, if an operator says so",
        r"若继续闲置，经运维同意后最早在 \1 后做",
    ),
    (
        r"if it stays idle, it is DONE in (\w+) at the earliest, unless somebody keeps it",
        r"若继续闲置，最早在 \1 后做，除非有人保留",
    ),
    (r"to be DONE, once an operator says so", "经运维同意后做"),
)  # fmt: skip
"""Of an idle policy (live.idle.words)."""

_CHINESE = Phrases((
    # The whole of a text, or its beginning.
    (r"(\d+) alike wait longer, (\S+) the longest", r"另有 \1 个同类作业等得更久，\2 最久"),
    (r"waits (\d+) s, its bound is (\d+) s", r"已等待 \1 秒，其上限为 \2 秒"),
    (r"waits for (.+?) to finish", r"等待 \1 结束"),
    (r"(.+?) did not finish; cancel it, or submit it without the dependency",
     r"\1 没有完成；取消它，或去掉依赖重新提交"),
    (r"would fit, but what quotas leave is kept for (.+)", r"放得下，但配额余量留给了 \1"),
    (r"would fit, but it is kept for (.+)", r"放得下，但已留给 \1"),
    (r"(\d+) of (\d+) replicas would start now", r"\2 个副本中有 \1 个现在可以开始"),
    (r"would start now with (.+)", r"若改为以下则现在可以开始：\1"),
    (r"expected to start by (\S+), if running jobs end at their limits",
     r"若运行中的作业在其时限结束，预计在 \1 前开始"),
    (r", the last of them (\S+?)(?=;|$)", r"，其中最后一个是 \1"),
    (r"with (\d+) ?% confidence between (\S+) and (\S+), judging by (\d+) earlier estimates",
     r"置信度 \1% 的区间为 \2 至 \3，依据 \4 次先前的估计"),
    (r"of (\d+) such times half were off by less than (\d+) s, one in ten was late by more than (\d+) s",
     r"在 \1 个此类时间中，一半误差小于 \2 秒，十分之一晚了 \3 秒以上"),
    (r"job (\S+) is ahead in queue (\S+), and nothing overtakes it there",
     r"作业 \1 在队列 \2 中排在前面，那里没有作业能超过它"),
    (r"queue (\S+) is not in the settings; known are (.+)", r"设置中没有队列 \1；已有 \2"),
    (r"queue (\S+) holds no jobs; name one of (.+)", r"队列 \1 不放作业；请指定 \2 之一"),
    (r"tenants have quotas by pool; name one of (.+)", r"租户按资源池有配额；请指定 \1 之一"),
    (r"jobs that could give way have run too short a time; the first may in (\d+) s",
     r"可以让位的作业运行时间太短；第一个还需 \1 秒"),
    (r"no cycle has looked at it yet", "还没有调度周期看过它"),
    (r"held by (.+?) since (\S+); `release` ends it", r"自 \2 起被 \1 保留；`release` 解除"),
    (r"suspended by (.+?) since ([^\s;]+\w)", r"自 \2 起被 \1 暂停"),
    (r"it is being stopped(, then it waits again)?", lambda found: f"正在停止{'，之后重新等待' if found[1] else ''}"),
    (r"`resume` ends it", "`resume` 恢复"),
    (r"does not fit together with what this cycle starts", "与本周期启动的作业放不下"),
    # Quotas.
    (r"asks for (?:(\d+) to )?(\d+) units?(?= of \d+ that there are| of \d+ that ordinary|,)",
     lambda found: f"申请 {f'{found[1]} 至 ' if found[1] else ''}{found[2]} 个单元"),
    (r" of (\d+) that there are", r"，共有 \1 个"),
    (r" of (\d+) that ordinary jobs may hold, beside (\d+) reserved", r"，普通作业最多可占用 \1 个，另有 \2 个预留"),
    (r", queue (\S+) could never hold more than (\d+)", r"，队列 \1 最多只能占用 \2"),
    (r", tenant (\S+) could never hold more than (\d+)", r"，租户 \1 最多只能占用 \2"),
    (r", queue (\S+) can take (-?\d+)", r"，队列 \1 还可占用 \2"),
    (r", tenant (\S+) can take (-?\d+)", r"，租户 \1 还可占用 \2"),
    (r"guaranteed (\d+)(?=,)", r"保障 \1"),
    (r", of it (\d+) used up on nodes that (?:have failed or are|are not ready or) in maintenance",
     r"，其中 \1 耗在未就绪或维护中的节点上"),
    (r", of it (\d+) borrowed", r"，其中借用 \1"),
    (r", holds (\d+) of at most (\d+)", r"，占用 \1，上限 \2"),
    (r", holds (\d+)", r"，占用 \1"),
    (r"; (\S+) holds (\d+) of at most (\d+)", r"；\1 占用 \2，上限 \3"),
    (r"a job that cannot be preempted may take only its own guarantee and what nobody is guaranteed",
     "不可抢占的作业只能占用自己的保障和没有保障给任何人的部分"),
    # Room.
    (r"no node could hold it with everything free", "即使全部空闲也没有节点放得下"),
    (r"with everything free no more than (\d+) of (\d+) replicas fit", r"即使全部空闲，\2 个副本也最多放下 \1 个"),
    (r"no one domain holds (\d+) replicas, the best (\d+)", r"没有一个域放得下 \1 个副本，最好的放 \2 个"),
    (r"(\d+) of (\d+) replicas fit", r"所需 \2 个副本，可放置 \1 个"),
    (r"(\d+) of (\d+) nodes fit", r"\2 个节点中有 \1 个符合"),
    (r"of (\d+) cards: ", r"\1 个 GPU 中："),
    (r"of (\d+) cards? in pool (\S+?): ", r"资源池 \2 的 \1 个 GPU 中："),
    *(
        (rf"(\d+) {re.escape(text)}(?=[,;:.)]|$)", rf"\1 个{' ' if put[0].isascii() else ''}{put}")
        for text, put in CAUSES.items()
    ),
    (r"(\d+) outside pool (\S+?)(?=[,;:)]|\.?$)", r"\1 个不在资源池 \2 中"),
    (r"(\d+) failed(?=[,;:.)]|$)", r"\1 个未就绪"),  # as older events say it
    (r"(\d+) devices? instead of (\d+)", r"\1 个设备，而不是 \2 个"),
    (r"(\d+) units? of each device instead of (\d+)", r"每个设备 \1 个单元，而不是 \2 个"),
    (r"(\d+) units? of each device instead of all", r"每个设备 \1 个单元，而不是全部"),
    (r"(\d+) milli-CPU instead of (\d+)", r"\1 毫核 CPU，而不是 \2"),
    (r"(\d+) bytes of memory instead of (\d+)", r"\1 字节内存，而不是 \2"),
    (r"：model (.+)$", lambda found: f"：型号 {found[1].replace(' or ', ' 或 ')}"),
    (r"：pool (\S+)$", r"：资源池 \1"),
    (r"unknown: nothing of this queue was placed yet, and the scheduler gives no reason",
     "未知：此队列尚未放置过作业，调度器也没有给出原因"),
    (r"(\d+) of higher priority wait too; (\d+) of (\d+) devices are free",
     r"还有 \1 个更高优先级的在等待；\3 个设备中有 \2 个空闲"),
    (r"capacity: it asks for (\S+) GPUs, (\d+) of (\d+) devices in (.+?) are free; the others are held by (.*)",
     lambda found: f"容量：申请 {found[1]} 个 GPU，{'资源池' if found[4] == 'the pool' else found[4]} 的 {found[3]} 个"
     f"设备中有 {found[2]} 个空闲；其余由 {found[5] or '他人'} 占用"),
    (r"(\d+) of (\d+) devices are free: quota, fragmentation or policy holds it back",
     r"\2 个设备中有 \1 个空闲：受配额、碎片或策略限制"),
    # A job that has not grown to its smallest gang.
    (r"has (\d+) of at least (\d+) replicas: ", r"至少需要 \2 个副本，现有 \1 个："),
    (r"a rank has finished, and a larger job would run it again", "已有进程完成，扩容会让它重新运行"),
    (r"limits allow (\d+) device units in all", r"上限总共允许 \1 个设备单元"),
    (r"no more than (\d+) fit on empty nodes", r"空节点上最多放下 \1 个"),
    (r"one more takes (\d+) device units, and limits leave (\d+)", r"再加一个需要 \1 个设备单元，上限还剩 \2 个"),
    (r"nothing is free for one more that is neither guaranteed to others nor needed by waiting jobs",
     "没有既未保障给他人、又不被等待作业需要的空闲可供再加一个"),
    # Idle jobs.
    (r"idle for (.+?), as measured at (\S+?)(?=;|$)", r"截至 \2 的测量，已闲置 \1"),
    *((text.replace("DONE", verb), put.replace("做", act)) for text, put in _STEPS for verb, act in _DONE.items()),
    (r"a warning follows after (\w+)", r"闲置 \1 后警告"),
    (r" \(policy ([^()]+)\)", lambda found: f"（策略：{policy(found[1], 'zh')}）"),
    (r"not all of it runs", "尚未全部运行"),
    (r"it has not run for long", "运行时间不长"),
    (r"last measured at (.+?), (\S+) ago", r"最近一次测量在 \1，\2 之前"),
    (r"measured at (.+?), which is yet to come", r"测量时间 \1 在未来"),
    (r"the server does not know whether it is idle", "服务器不知道它是否闲置"),
    (r"it would have been idle since (.+?), before it began: another had its name",
     r"闲置早于其开始（自 \1）：同名的是另一个作业"),
    # What happens to them next, and why nothing does.
    (r"no idle policy applies to it", "没有适用于它的闲置策略"),
    (r"nothing, while that is unknown", "情况未知期间不作处理"),
    (r"it grows once it is used again, or `keep` says so", "再次使用或执行 `keep` 后恢复扩容"),
    (r"it holds nothing beyond its smallest gang", "它只占用最小成组规模，没有可缩减的部分"),
    (r"its pods are not ours to make again, so that it cannot be suspended",
     "它的 Pod 不由本调度器创建，无法重建，因此不能挂起"),
    (r"the server was not asked yet", "尚未询问服务器"),
    (r"the demo catches up: nothing was measured since (\S+)", r"演示正在追赶：自 \1 起没有测量数据"),
    (r"the server has not answered since (\S+)", r"服务器自 \1 起没有应答"),
    # Why a rule of alerts cannot be evaluated.
    (r"no (\w+) since (.+?), (\w+) ago",
     lambda found: f"自 {found[2]} 起没有{FACTS.get(found[1], found[1])}，已有 {found[3]}"),
    (r"no (\w+) in (\d+) days", lambda found: f"{found[2]} 天内没有{FACTS.get(found[1], found[1])}"),
))  # fmt: skip
_POLICY = re.compile(
    r"(?:all jobs|(?:tenants (?P<tenants>[^;]+?))?(?:; )?(?:queues (?P<queues>[^;]+?))?): warn after (?P<warn>\w+), "
    r"after (?P<after>\w+) (?P<then>shrink|suspend|cancel)(?P<asks> if an operator says yes)?"
)
_THEN = {"shrink": "缩减", "suspend": "挂起", "cancel": "取消"}
_MARKS = {", ": "，", ": ": "："}
_AFTER_CHINESE = re.compile(r"(?<=[\u4e00-\u9fff])[,:] ")
_AROUND_CHINESE = re.compile(r" ?\(([^()]*[\u4e00-\u9fff][^()]*)\)")
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|\+00:00)")


def policy_act(summary: str) -> str:
    """What an idle policy does in the end: `shrink`, `suspend` or `cancel`; '' of what is none."""
    found = _POLICY.fullmatch(summary)
    return found["then"] if found else ""


def policy(summary: str, code: str) -> str:
    """An idle policy, as settings.IdlePart sums it up, in a language."""
    found = _POLICY.fullmatch(summary) if code == "zh" else None
    if found is None:
        return summary
    whose = [f"{name} {found[key]}" for name, key in (("租户", "tenants"), ("队列", "queues")) if found[key]]
    asks = "，须经运维同意" if found["asks"] else ""
    warned = f"闲置 {found['warn']} 后警告，{found['after']} 后{_THEN[found['then']]}"
    return f"{'，'.join(whose) or '全部作业'}：{warned}{asks}"


def said(text: str, code: str, moment: Moment | None = None) -> str:
    """The text in a language ('zh'; any other: as it is).

    moment: how instants within it are written; None: as they are, in UTC.
    """
    if code == "zh" and text in CODES:
        return CODES[text]
    if code == "zh" and text:
        code_of, colon, rest = text.partition(": ")
        text = f"{CODES[code_of]}：{rest}" if colon and code_of in CODES else text
        text = _AFTER_CHINESE.sub(lambda found: _MARKS[found[0]], _CHINESE.translated(text).replace("; ", "；"))
        text = _AROUND_CHINESE.sub(r"（\1）", text)
    return with_moments(text, _INSTANT, moment)
