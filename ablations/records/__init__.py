"""Read and write records and plans on disk. No JAX, no pandas.

    results/cells/<hash>/record.json     config, status, provenance, checksum of the curve
    results/cells/<hash>/curve.parquet   one row per point: step, then one float column per metric
    results/cells/<hash>/policies/       saved policies, if any: see ablations/sweep/snapshots.py
    results/cells/<hash>/run/            what a command left in its {folder}
    results/plans/<study>/<plan>.json    what a run resolved to: all that a table must know
    results/plans/<study>/<plan>.unit  what was learned, the unit of margins: see `write_units`
    results/plans/<study>/last           the name of the plan that ran last
    results/archive/                     plans with their records, to be committed: see
                                         ablations/exchange/archives.py

A cell's folder appears whole, by one rename, or not at all. Its hash covers everything that decides
the result, so whoever computes it writes the same thing, and a study refers to cells that another
one ran.
"""

from ablations.records.files import (
    OtherFormat,
    as_read,
    canonical,
    digest,
    flush_to_disc,
    folder_at_once,
    permitted,
    require_format,
    write_atomically,
)
from ablations.records.plan import (
    DamagedPlan,
    Plan,
    Unit,
    decode_plan,
    encode_plan,
    has_run,
    plan_path,
    plans_folder,
    read_plan,
    read_results,
    read_runs,
    read_units,
    write_plan,
    write_units,
)
from ablations.records.record import (
    DamagedRecord,
    Record,
    cell_folder,
    curve_of,
    read_curve,
    read_record,
    usable_record,
    verify_curve,
    write_record,
)

__all__ = [
    "DamagedPlan",
    "DamagedRecord",
    "OtherFormat",
    "Plan",
    "Record",
    "Unit",
    "as_read",
    "canonical",
    "cell_folder",
    "curve_of",
    "decode_plan",
    "digest",
    "encode_plan",
    "flush_to_disc",
    "folder_at_once",
    "has_run",
    "permitted",
    "plan_path",
    "plans_folder",
    "read_curve",
    "read_plan",
    "read_record",
    "read_results",
    "read_runs",
    "read_units",
    "require_format",
    "usable_record",
    "verify_curve",
    "write_atomically",
    "write_plan",
    "write_record",
    "write_units",
]
