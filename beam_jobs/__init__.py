"""Raw data → a TFRecord dataset, as Beam jobs. The files here are commands; the folders hold what they run.

sources/ reads raw formats, cells/ types them, schema/ proposes a schema, conversion/ and inference/ are the
jobs, checks/ validates and compares datasets, launch/ runs jobs and publishes their output. All may import
pipeline/base and pipeline/report; a command may import any of them. Start with convert.py.
"""

import gc
import logging

# Importing Beam makes a million objects that all stay. The collector would look through them again and again:
# by default, whenever there are 700 more.
gc.set_threshold(100_000)

# Beam complains on every import that the Google Cloud clients are absent; nothing local needs them.
logging.getLogger().addFilter(lambda record: "apitools not found" not in record.getMessage())
