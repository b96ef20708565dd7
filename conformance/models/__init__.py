"""Models: a block or a small configuration of models that people use, as cases of the suite.

    pytest --pyargs conformance.models -n auto --target cuda_sm90

docs/models.md describes it.
"""
