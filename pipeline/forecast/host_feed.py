"""Whether hosts deliver what a step wants: measured on this host, predicted for those of a TPU slice."""

from pipeline.feed.certificate import MARGIN, Certificate
from pipeline.feed.scaling import EXPECTED, LEAST, MOST, Slice, hosts_of
from pipeline.forecast.stages import Band, Stage
from pipeline.forecast.target import Target
from pipeline.report import formats
from pipeline.report.section import Finding

# Launching steps, transfers and checkpoints take cores, too: a host whose feed takes all of them starves.
KEPT_FREE = 0.4


def of_hosts(certificate: Certificate, target: Target, band: Band | None, *, batch: int) -> Stage:
    """The verdict on the feed of a target.

    It is bad where the hosts surely deliver less than the slowest step wants, and a note where that depends
    on how long a step takes.

    Args:
      certificate: measured on this host, which is taken for the only one.
      band: times that a step may take. If both ends are equal, they are only the least time; None: nothing
        is known.
      batch: examples of a device.
    """
    if band is None:
        rate = formats.count(certificate.measured.examples_per_s)
        return Stage(
            name="feed",
            verdict=f"this host gives {rate} examples/s; the time of a step is not known",
            is_good=None,
        )
    fast, slow = (batch * target.devices / seconds for seconds in (band.low, band.high))
    is_bounded = band.low < band.high
    wanted = (
        f"{formats.count(slow)} to {formats.count(fast)}" if is_bounded else f"up to {formats.count(fast)}"
    )
    given, cores = certificate.measured.examples_per_s, formats.number(certificate.host.cores)
    here = _word(given >= MARGIN * fast, is_bounded and given < slow)
    limit = Finding(
        text=f"Steps want {wanted} examples/s; this host gives {formats.count(given)} "
        f"({cores} {'core' if cores == '1' else 'cores'}): {here}.",
        advice=""
        if here == "fed"
        else f"The limit is {certificate.limiting.name}; pipeline.feed_rate says what makes it faster.",
    )
    hosts = hosts_of(target.generation, target.chips)
    if hosts is None:
        return _of_unknown_hosts(certificate, fast, here=here, limit=limit)
    usable = _usable_cores(hosts)
    is_fed = certificate.scaling.rate(usable, LEAST) >= MARGIN * fast / hosts.hosts
    is_starved = is_bounded and certificate.scaling.rate(usable, MOST) < slow / hosts.hosts
    word = _word(is_fed, is_starved)
    return Stage(
        name="feed",
        verdict=f"{word} {'by' if word == 'fed' else 'with'} {_hosts(hosts)}, "
        f"of whose cores {1 - KEPT_FREE:.0%} may feed: about "
        f"{formats.count(rate_of_hosts(certificate, target))} examples/s",
        is_good={"fed": True, "input-bound": False}.get(word),
        findings=(limit,),
    )


def rate_of_hosts(certificate: Certificate, target: Target) -> float:
    """Examples a second that all hosts of a target are expected to give; where these are not known, what
    this host gives.
    """
    hosts = hosts_of(target.generation, target.chips)
    if hosts is None:
        return certificate.measured.examples_per_s
    return hosts.hosts * certificate.scaling.rate(_usable_cores(hosts), EXPECTED)


def _usable_cores(hosts: Slice) -> int:
    return int((1 - KEPT_FREE) * hosts.host_cores)


def _of_unknown_hosts(certificate: Certificate, fast: float, *, here: str, limit: Finding) -> Stage:
    cores = certificate.scaling.cores_for(MARGIN * fast)
    if cores is None:
        needs = "no number of cores is sure to give what the fastest step wants"
    else:
        needs = f"{formats.count(cores)} cores like this host's give what the fastest step wants"
    return Stage(
        name="feed",
        verdict=f"{here} by this host; {needs}",
        is_good=True if here == "fed" else None,
        findings=(limit,),
    )


def _word(is_fed: bool, is_starved: bool) -> str:
    return "fed" if is_fed else "input-bound" if is_starved else "perhaps input-bound"


def _hosts(hosts: Slice) -> str:
    each = f"{hosts.host_cores} cores"
    return f"a host of {each}" if hosts.hosts == 1 else f"{hosts.hosts} hosts of {each}"
