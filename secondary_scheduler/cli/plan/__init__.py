"""`secondary-scheduler plan`: what another configuration would do on a recorded cluster."""
