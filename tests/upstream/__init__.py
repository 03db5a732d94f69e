"""Tests and benchmarks of kube-scheduler and scheduler-plugins with our scheduler in place of the Go one: `make
upstream`, `make upstream-e2e` and `make upstream-perf`.

Upstream's sources stay in the Go module cache and in a copy of it: here are patterns that find where the copy is
edited, and Go files of ours that are put beside upstream's. The test binaries are the same for both schedulers.
"""
