"""Datasets that change while a run reads them: `make underfoot-check`. Real runs, every kind of change."""
