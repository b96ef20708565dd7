"""Bisection: which commit of PyTorch, and which function of it, changed what is generated for a case"""
