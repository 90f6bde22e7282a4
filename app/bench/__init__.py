"""`redline bench`: contestants answer the same prompts in turns, and are compared with plain decoding.

benchmark         the order of the contestants, their warm-up, and the record of each reply
contestants       plain decoding, drafters, exact-verify, mlx-lm; server_contestant: another program, and its verdict
prompt_file       the prompts
bench_document    the results as JSON; saved_results: how an interrupted benchmark continues
verdicts          whether draft length auto is slower than plain decoding or than a fixed length
bench_table, plot the results as tables and as a picture
"""
