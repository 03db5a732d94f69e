"""`make demo CLUSTER=kubeconfig`: the demo's main job on a cluster that exists already, such as kind, k3d or minikube.

All that it creates is in a namespace of its own, which goes with the demo, and what a scheduler in the cluster needs
beside that: two bindings and a role with the same name. Without an image the scheduler is a process of this machine.
"""
