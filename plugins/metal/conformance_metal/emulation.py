import contextlib
@contextlib.contextmanager
def emulating():
    yield
