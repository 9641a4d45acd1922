"""Gives the model of a run the weights of another one, before the first step.

A model that is given weights alone decides otherwise, and nothing says so: what its preprocessing was built
from must be the same. So the golden records of the other run must have the answers that they had there.
"""

import tensorflow as tf

from pipeline.training import restore
from pipeline.training.parts import Run
from pipeline.training.state import run_record
from pipeline.training.state.checkpoints import directory


def take_over(run: Run) -> None:
    """Gives the model the weights of `run.setup.start`, averaged if that run averages them.

    Nothing is done where there is no such start, or the run has checkpoints of its own to go on from. The
    optimizer, the step and the random state stay as they are: those of a run that begins.

    Raises:
      InputError: the weights do not fit, or the model's answers to the golden records of the other run are
        not those that it recorded.
    """
    if not run.setup.start or directory.newest_first(run.setup.workdir.checkpoints):
        return
    start, strategy = run.setup.start, run.setup.strategy
    weights = {id(variable) for variable in run.model.weights}
    random = [each for each in run.model.variables if id(each) not in weights]
    state = [tf.convert_to_tensor(each).numpy() for each in random]
    with strategy.scope():
        read = restore.reading(
            start.source,
            run_record.read(start.source.run),
            model=run.model,
            preprocess=run.preprocess,
            strategy=strategy,
        )
    read.checkpoints.restore(choice=f"{start.step}")
    if read.averages:
        read.averages.take_place()
    for variable, value in zip(random, state, strict=True):
        variable.assign(value)
    if run.averages:
        run.averages.begin()
