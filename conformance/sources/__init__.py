"""PyTorch's Python sources: of a checkout or a commit, and laid over the installed torch without changing it"""
