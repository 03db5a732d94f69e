"""`secondary-scheduler simulate`: what one configuration decides on a recorded cluster, with every score."""
