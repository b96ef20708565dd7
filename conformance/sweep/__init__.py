"""The sweep: each entry of PyTorch's op_db, in each dtype that it supports, as cases of the suite.

    pytest --pyargs conformance.sweep -n auto --target cuda_sm90 --dtypes f32

docs/sweep.md describes it.
"""
