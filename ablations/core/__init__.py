"""Define the data that the rest works on, and decode it from files.

What is read is bounded in size, decoded once into types, and refused in a line where it does not
fit. No numpy, no JAX.

    decode.py    a JSON value as a type, or the place where it is none
    scalars.py   values that stand alone; the fields of types as JSON
    files.py     bytes and JSON of a file that may be anybody's; what is set aside, and why
    plan.py      what a stored plan holds
    record.py    what a record holds
    verdict.py   what a comparison says
"""
