"""PromQL that is written often."""

from __future__ import annotations

from monitoring.dashboards.model import Query

_SELECTED = {"model": 'model=~"$pool"', "pool": 'pool=~"$pool"'}


def quantiles(metric: str, by: str, *quantiles: float, where: str = "") -> tuple[Query, ...]:
    """Of a histogram, for each value of the label `by`: model or pool, and perhaps another one after it."""
    buckets = f"{metric}_bucket{_of(by, where)}[$__rate_interval]"
    return tuple(
        Query(
            f"histogram_quantile({quantile:g}, sum by (le, {by}) (rate({buckets})))",
            f"{_legend(by)} {quantile:.0%}",
        )
        for quantile in quantiles
    )


def rate(metric: str, by: str, where: str = "", legend: str = "") -> Query:
    """Of a counter, a second."""
    return Query(f"sum by ({by}) (rate({metric}{_of(by, where)}[$__rate_interval]))", legend or _legend(by))


def increase(metric: str, by: str, where: str = "", legend: str = "") -> Query:
    """Of a counter, over what one point of the graph stands for."""
    return Query(
        f"sum by ({by}) (increase({metric}{_of(by, where)}[$__rate_interval]))", legend or _legend(by)
    )


def ratio(part: str, whole: str, by: str, legend: str = "") -> Query:
    """Of two counters."""
    return Query(f"{rate(part, by).expr} / {rate(whole, by).expr}", legend or _legend(by))


def most(metric: str, by: str, where: str = "", legend: str = "") -> Query:
    """Of a gauge that every router sets."""
    return Query(f"max by ({by}) ({metric}{_of(by, where)})", legend or _legend(by))


def total(metric: str, by: str, where: str = "", legend: str = "") -> Query:
    """Of a gauge that each service sets for itself."""
    return Query(f"sum by ({by}) ({metric}{_of(by, where)})", legend or _legend(by))


def density(metric: str, by: str) -> Query:
    """A histogram as a heatmap has it."""
    return Query(f"sum by (le) (increase({metric}_bucket{_of(by, '')}[$__rate_interval]))", "{{le}}")


def _of(by: str, where: str) -> str:
    first = by.partition(",")[0]
    matchers = [matcher for matcher in (_SELECTED.get(first, ""), where) if matcher]
    return f"{{{', '.join(matchers)}}}" if matchers else ""


def _legend(by: str) -> str:
    return " ".join(f"{{{{{label.strip()}}}}}" for label in by.split(","))
