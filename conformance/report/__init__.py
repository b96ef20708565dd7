"""The report: one HTML file about one or several runs, that a browser shows without a network"""
