import logging

# Beam complains on every import that the Google Cloud clients are absent; nothing local needs them.
logging.getLogger().addFilter(lambda record: "apitools not found" not in record.getMessage())
