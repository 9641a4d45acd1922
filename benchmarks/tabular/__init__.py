"""Whole commands on tables of real data, beside scikit-learn."""
