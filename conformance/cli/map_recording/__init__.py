"""Coverage maps made and checked: pytest collects the items, and forked processes capture them."""
