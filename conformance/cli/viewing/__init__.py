"""`view`: a local page over the runs of a project. server.py admits requests, site.py answers them."""
