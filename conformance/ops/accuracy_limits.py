"""How many ulp compiled's error may be larger than eager's: of each operator and dtype.

Written by `PYTHONPATH=. python benchmarks/accuracy.py --limits`, from what it measures. docs/accuracy.md shows both.
"""

#: Where LIMITS has nothing else.
DEFAULTS = {"f32": 1.0, "bf16": 0.5, "f16": 0.5}
#: (operator, dtype) → ulp.
LIMITS = {
    ("cos", "f32"): 2.0,
    ("erfinv", "f32"): 51.0,
    ("i0e", "f32"): 2.0,
    ("i1", "f32"): 5.0,
    ("i1e", "f32"): 4.0,
    ("modified_bessel_k0", "f32"): 2.0,
    ("modified_bessel_k1", "f32"): 2.0,
    ("ndtri", "f32"): 2.0,
    ("sin", "f32"): 2.0,
}


def excess(operator: str, dtype: str) -> float:
    """By how many ulp compiled's largest error may be above eager's."""
    return LIMITS.get((operator, dtype), DEFAULTS[dtype])
