"""What Spark reads: the folder of a run checked, its histories packed into Parquet."""
