"""The data that the rest works on, and how it is decoded from files. No numpy, no JAX.

decode.py    a JSON value as a type
files.py     the bytes and the JSON of a file that anybody may have written
plan.py      the parts of a stored plan
record.py    the parts of a record
verdict.py   the verdict on a comparison
"""
