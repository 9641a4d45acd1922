"""A TFRecord dataset → a trained, evaluated, exported, published model. The files here are the commands.

Every folder is a room; its own docstring says what it is for. configs/ holds one experiment a file, forecast/
is what preflight.py runs, generation/ what generate.py runs, retraining/ runs all of it on a schedule. A
command may import any room, a room no command; base/ is for all. Start with train.py.
"""

import importlib.util
import pathlib
import pkgutil
import sys

_MODELS = "models"
_ROOM = pathlib.Path(__file__).parents[1] / _MODELS
if _MODELS not in sys.modules and _ROOM.is_dir():
    # A command may start where a user has a folder or file `models`, which Python would find before ours. So
    # we load ours by its path; what is in their folder is found beside it.
    _SPEC = importlib.util.spec_from_file_location(
        _MODELS,
        _ROOM / "__init__.py",
        submodule_search_locations=pkgutil.extend_path([str(_ROOM)], _MODELS),
    )
    sys.modules[_MODELS] = importlib.util.module_from_spec(_SPEC)
    _SPEC.loader.exec_module(sys.modules[_MODELS])
