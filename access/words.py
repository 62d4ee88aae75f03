"""The texts of the sign-in page, in English and Chinese."""

from __future__ import annotations

from collections.abc import Mapping

_ENGLISH = {
    "language": "en",
    "title": "Sign in",
    "user": "User name",
    "password": "Password",
    "enter": "Sign in",
    "single": "Sign in with your organisation's account",
    "refused": "Wrong user name or password.",
    "wait": "Too many attempts. Try again in a few minutes.",
    "busy": "Too many people are signing in right now. Try again in a few seconds.",
    "provider": "Signing in with your organisation failed. The server's log says why.",
    "again": "That took too long, or cookies are off. Start again.",
}
_CHINESE = {
    "language": "zh",
    "title": "登录",
    "user": "用户名",
    "password": "密码",
    "enter": "登录",
    "single": "使用组织账号登录",
    "refused": "用户名或密码不正确。",
    "wait": "尝试次数过多，请几分钟后再试。",
    "busy": "当前登录人数过多，请几秒后再试。",
    "provider": "组织账号登录失败，原因见服务器日志。",
    "again": "登录超时或浏览器禁用了 Cookie，请重新开始。",
}


def words(language: str) -> Mapping[str, str]:
    """The texts in a language: Chinese if it is that, or is the first of an Accept-Language; else English."""
    first = language.split(",")[0].strip().lower()
    return _CHINESE if first.startswith("zh") else _ENGLISH
