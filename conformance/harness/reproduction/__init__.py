"""Reproductions: scripts that show the failure of an item again, with torch alone where the suite is not needed."""
