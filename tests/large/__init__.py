"""How large datasets may be: `make large-check`. Made-up datasets, figures beside their bounds."""
