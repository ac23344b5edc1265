"""The doctor's checks of what others can reach: the demo page, the proxies in front, and how many may connect."""

import resource
from collections.abc import Iterator

from app.doctor.findings import Finding
from app.serving.server import SPARE_FILES
from app.settings import Settings


def edges(settings: Settings) -> Iterator[Finding]:
    """Yield what a stranger meets first."""
    yield _demo(settings)
    yield _proxies(settings)
    yield _clients(settings)


def _demo(settings: Settings) -> Finding:
    if not settings.demo:
        why = "PARLEY_DEMO is off" if settings.demo_page is False else f"{settings.fronted} lets others in"
        return Finding("ok", "demo", f"closed, as {why}")
    if settings.demo_password is not None:
        return Finding("ok", "demo", "open to those who know PARLEY_DEMO_PASSWORD")
    if settings.fronted is not None:
        return Finding("fail", "demo", f"open, and {settings.fronted} lets others in", "set PARLEY_DEMO_PASSWORD")
    remedy = "behind a proxy or tunnel set PARLEY_TRUSTED_PROXIES, PARLEY_HOSTS, or PARLEY_DEMO=off"
    return Finding("ok", "demo", "open to this machine alone", remedy)


def _proxies(settings: Settings) -> Finding:
    if settings.proxies:
        names = ", ".join(str(each) for each in settings.proxies)
        text = f"{names} are believed; " + (f"answers to {', '.join(settings.hosts)}" if settings.hosts else "any host")
        return Finding("ok", "proxies", text, "" if settings.hosts else "PARLEY_HOSTS names those to answer to")
    if settings.public_url is not None:
        remedy = "if one is in front, name it in PARLEY_TRUSTED_PROXIES: else all its callers are one address"
        return Finding("warn", "proxies", "PARLEY_PUBLIC_URL is set, and no proxy is believed", remedy)
    remedy = "" if settings.loopback else "if one is in front, name it in PARLEY_TRUSTED_PROXIES"
    return Finding("ok", "proxies", "none are believed: a caller's address is that of its connection", remedy)


def _clients(settings: Settings) -> Finding:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    text = f"at most {settings.connections} at once, {settings.connections_per_address} of one address"
    if hard != resource.RLIM_INFINITY and hard < settings.connections + SPARE_FILES:
        return Finding("warn", "clients", f"{text}, but this system allows {hard} open files", "raise `ulimit -Hn`")
    return Finding("ok", "clients", text)
