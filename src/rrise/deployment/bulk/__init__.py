"""Certificates of whole datasets: files and URLs in, Parquet out, resumable shard by shard."""
