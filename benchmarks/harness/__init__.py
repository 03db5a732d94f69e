"""What all benchmarks share: servers, objects, the processes under test, what is seen and measured of them, tables.

`control_plane` starts etcd and kube-apiserver, `filled` fills them with a scenario (`scenario`, `objects`) and watches
its pods (`podwatch`), `contestants` starts what is measured and reads its figures, `watcher` serves loads to all,
`manifests` makes single objects, `figures` sums up, prints and saves.
"""
