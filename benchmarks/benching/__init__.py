"""What the benchmarks share: databases of their own, a shop filled inside the database, baselines, reports."""
