"""`--lr_scaling`: how the learning rate follows a global batch other than that of the config file."""

import dataclasses

from ml_collections import ConfigDict

NONE, LINEAR = "none", "linear"


@dataclasses.dataclass(frozen=True, kw_only=True)
class RateScaling:
    """`linear` has the rate grow with the global batch (Goyal et al. 2017, section 2.1).

    It does not look at the number of replicas, over which a global batch is only parted: so a run may go on
    with another number of them.

    Attributes:
      how: NONE or LINEAR.
      file_batch: the global batch that the rate of a config is meant for, where it is scaled.
    """

    how: str = NONE
    file_batch: int = 0

    def scaled(self, config: ConfigDict) -> ConfigDict:
        """A copy with the learning rate for its global batch."""
        found = config.copy_and_resolve_references()
        if self.how == LINEAR and self.file_batch > 0:  # else the batch is refused later
            found.optimizer.learning_rate = (
                config.optimizer.learning_rate * config.global_batch / self.file_batch
            )
        return found

    def told(self, config: ConfigDict) -> str:
        """The rate that a config gets, in words."""
        rate = f"{self.scaled(config).optimizer.learning_rate:g}"
        if self.how == NONE:
            return f"{rate} for any global batch (--lr_scaling={NONE})"
        return (
            f"{rate}, which is {config.optimizer.learning_rate:g} × {config.global_batch:,} / "
            f"{self.file_batch:,}, the global batch of the config file (--lr_scaling={LINEAR})"
        )
