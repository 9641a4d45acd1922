"""The accelerators that are known: their peaks and their memory, each with its source.

Peaks are without sparsity: for newer accelerators, NVIDIA's data sheets print twice these figures, "with
sparsity".
"""

import dataclasses
import math
import re


@dataclasses.dataclass(frozen=True, kw_only=True)
class Accelerator:
    """One device that a process computes on.

    Attributes:
      pattern: fits the name that a driver or a machine gives it; the first one in the table that fits counts.
      teraflops: peak of bfloat16, or of float16 where it has no bfloat16, in 10¹² a second.
      memory_gb: size of the memory, in 10⁹ bytes; of a TPU, what its compiler (libtpu 0.0.42.1) leaves to a
        program.
      gb_per_s: speed of the memory, in 10⁹ bytes.
      source: document and its date.
      target: what `pipeline.preflight --target` calls it; empty: preflight does not know it.
      has_bfloat16: whether it computes bfloat16.
      clock_ghz: clock of its matrix units, which turns a compiler's cycles into seconds: the peak divided by
        their multiply-adds a cycle. None: not known.
      lanes: width of its matrix units. Sizes are padded to a multiple of it.
      devices_a_chip: devices that the cloud rents as one chip.
      axes: axes of a topology, such as 2 of v5e:2x4.
      link_gb_per_s: what goes one way over one link to a neighbour, in 10⁹ bytes a second; of a GPU, over all
        its NVLinks. None: it has no such links.
    """

    name: str
    pattern: str
    teraflops: float
    memory_gb: float
    gb_per_s: float
    source: str
    target: str = ""
    has_bfloat16: bool = True
    clock_ghz: float | None = None
    lanes: int = 8
    devices_a_chip: int = 1
    axes: int = 2
    link_gb_per_s: float | None = None

    @property
    def is_tpu(self) -> bool:
        return self.name.startswith("TPU")

    def utilisation(self, flops_per_s: float, *, devices: int = 1) -> float:
        """The MFU: operations a second of all devices together, as a share of their peak."""
        return flops_per_s / (1e12 * self.teraflops * devices)


_NVIDIA = "NVIDIA, {} data sheet, {}"
_GOOGLE = "Google Cloud, TPU system architecture, {}, 2025"


def _nvidia(
    name: str, pattern: str, document: str, teraflops: float, memory_gb: float, gb_per_s: float, **more
):
    source = _NVIDIA.format(*document.split())
    return Accelerator(
        name=name,
        pattern=pattern,
        source=source,
        teraflops=teraflops,
        memory_gb=memory_gb,
        gb_per_s=gb_per_s,
        **more,
    )


def _tpu(generation: str, pattern: str, teraflops: float, memory_gib: float, gb_per_s: float, **more):
    return Accelerator(
        name=f"TPU {generation}",
        pattern=pattern,
        source=_GOOGLE.format(generation),
        teraflops=teraflops,
        memory_gb=memory_gib * 2**30 / 1e9,
        gb_per_s=gb_per_s,
        target=generation,
        **{"lanes": 128, **more},
    )


# Links: Google's pages of each TPU (docs/v5e, v5p, v6e and tpu7x, read in November 2026) give what a chip
# sends and receives over all its links, 400, 1,200, 800 and 1,200 GB/s: half of it, by 4 or 6 links. The
# page of the v4 gives 1.1 PB/s for the sums of 4,096 chips: 45 GB/s for each of 6 links. "How To Scale Your
# Model" (Google DeepMind, 2025, part 2) has the same numbers. NVIDIA's data sheets give both ways together:
# half of 300 (V100), 600 (A100), 900 (H100 and H200 SXM) and 1,800 GB/s (B200).
# A B200 has 192 GB, of which machines of eight give a program 180 (NVIDIA, DGX B200 data sheet: 1,440 GB).
ACCELERATORS = (
    _nvidia("B200", "B200", "B200 2025", 2250, 180, 7700, target="b200", link_gb_per_s=900),
    _nvidia("H200 NVL", "H200 NVL", "H200 2024", 835, 141, 4800),
    _nvidia("H200 SXM", "H200", "H200 2024", 989, 141, 4800, target="h200", link_gb_per_s=450),
    _nvidia("H100 PCIe", "H100 PCIe", "H100 2023", 756, 80, 2000),
    _nvidia("H100 NVL", "H100 NVL", "H100 2024", 835, 94, 3900),
    _nvidia("H100 SXM", "H100", "H100 2023", 989, 80, 3350, target="h100", link_gb_per_s=450),
    _nvidia("A100", "A100", "A100 2021", 312, 80, 2039, target="a100", link_gb_per_s=300),
    _nvidia("L4", r"L4\b", "L4 2023", 121, 24, 300, target="l4"),
    _nvidia("T4 (float16)", r"T4\b", "T4 2019", 65, 16, 320, target="t4", has_bfloat16=False),
    _nvidia("V100 PCIe (float16)", "V100.*PCIE", "V100 2020", 112, 32, 900, has_bfloat16=False),
    _nvidia(
        "V100 SXM2 (float16)",
        "V100",
        "V100 2020",
        125,
        32,
        900,
        target="v100",
        has_bfloat16=False,
        link_gb_per_s=150,
    ),
    _tpu("v4", r"^v4-|^TPU v4$", 275, 30.75, 1200, clock_ghz=1.05, axes=3, link_gb_per_s=45),
    _tpu("v5e", r"^v5(e|litepod)-|^TPU v5(e| lite)$", 197, 15.75, 819, clock_ghz=1.5, link_gb_per_s=50),
    _tpu("v5p", r"^v5p-|^TPU v5p?$", 459, 95.74, 2765, clock_ghz=1.75, axes=3, link_gb_per_s=100),
    _tpu("v6e", r"^v6e-|^TPU v6(e| lite)$", 918, 31.25, 1638, clock_ghz=1.75, lanes=256, link_gb_per_s=100),
    # A chip is two devices: 2,307 TFLOP/s, 192 GiB and 7,380 GB/s together.
    _tpu("tpu7x", r"^(tpu)?7x", 1153.5, 94.75, 3690, lanes=256, devices_a_chip=2, axes=3, link_gb_per_s=100),
)


def of_device(name: str) -> Accelerator | None:
    """The accelerator of a GPU's name, such as `NVIDIA A100-SXM4-40GB`, or of a TPU: its type, such as
    `v5litepod-8`, or JAX's name of the device, such as `TPU v5 lite`. None if it is not known.
    """
    return next((each for each in ACCELERATORS if re.search(each.pattern, name, re.IGNORECASE)), None)


def of_target(name: str) -> Accelerator | None:
    """The accelerator that a `--target` names, such as v5e; None if there is none such."""
    return next((each for each in ACCELERATORS if each.target and each.target == name.lower()), None)


def chips_of(accelerator: Accelerator, shape: str) -> int | None:
    """The chips of a topology such as 2x4; None where it is not one of this TPU's.

    A slice is a single chip, or hosts of 2x2 chips; as forecasts ask libtpu, it refuses any other.
    """
    size = "[1-9][0-9]{0,3}"
    if not re.fullmatch("x".join([size] * accelerator.axes), shape):
        return None
    sizes = [int(size) for size in shape.split("x")]
    is_of_hosts = sizes[0] % 2 == sizes[1] % 2 == 0
    return math.prod(sizes) if is_of_hosts or math.prod(sizes) == 1 else None
