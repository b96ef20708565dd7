"""Observers: wrappers around functions of Inductor and Dynamo that record what these decide, and change nothing.

One module for each decision. kernels.py applies them all and collects what they recorded.
"""
