"""A small, honest kubelet whose pods are processes of this machine."""
