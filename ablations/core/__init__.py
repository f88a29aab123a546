"""Types of stored data, and how they are decoded from files. Imports neither numpy nor JAX.

decode.py    decodes JSON values as types
files.py     reads files that other programs may have written or damaged
plan.py      types of a stored plan
record.py    types of a record
"""
