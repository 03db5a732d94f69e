"""The oracle: random clusters and pods, asked of the real kube-scheduler and of ours, compared verdict by verdict."""
