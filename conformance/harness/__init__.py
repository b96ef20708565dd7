"""One item run and reported: the layer between pytest and the rest."""
