"""A small kubelet: one Node of the local cluster whose pods run on this machine, as processes or by podman.

Run it as ``python -m devcluster.node_agent --kubeconfig K --node-name real-0 --state-dir D
--image-map FILE --pod-cidr-base 127.10.0.0``. The credentials may be a node's own (Node authorizer, NodeRestriction).

What it does
    Registers the Node, keeps its Lease and status; runs assigned pods with their volumes (configMap, secret, projected,
    downwardAPI, emptyDir; updates swapped in atomically), environment, probes (httpGet, tcpSocket, exec), init
    containers and sidecars, restarts with kubelet's backoff, preStop hooks, termination grace; writes statuses and
    Events in kubelet's words; serves ``kubectl logs``. Every pod has an address of its own in 127.0.0.0/8. Images are
    looked up in a map to host commands (``images``), or in what podman has; an unknown one is ErrImagePull, as on any
    node that cannot pull.
    A pod for which the node has no room left is rejected as by kubelet: Failed, ``OutOfcpu`` and so on (``admission``).
    A resize is granted where there is room, else deferred or infeasible; no running container notices.
    A field that is not supported is refused by name in an Event and the pod stays Pending (``supported_fields``).

Tiers of processes (``sandbox``), shown in the Node's annotation ``secondary-scheduler.io/sandbox-tier``
    ``mounts``: user, mount, pid, ipc and uts namespaces; needs Linux 5.12 and user namespaces, as root or anybody.
    ``directory``: no namespaces; paths to volumes are rewritten in arguments, environment and ConfigMap texts.

Tier ``podman`` (``--containers podman``), with runc
    Each container of a pod is one of podman's, from an image that this machine has; none is pulled. It has the pod's
    user, groups, read-only root, capabilities, seccomp profile and limits (as far as cgroups allow), and labels by
    which it is found again. Volumes are bind mounts; fsGroup needs an agent that runs as root. Of the image map only
    ``appendArgs`` count.

Limits of all tiers
    The network is the host's: any pod reaches any port of this machine, Services and cluster DNS do not exist, and a
    process that listens on 0.0.0.0 collides with its replicas (use ``$(POD_IP)`` or appendArgs).
    Accepted without effect: AppArmor profiles RuntimeDefault and Unconfined, seLinuxOptions, emptyDir medium and
    sizeLimit, imagePullPolicy (but for Never), imagePullSecrets, dnsPolicy, enableServiceLinks.
    ``kubectl logs --timestamps`` and ``--since`` are refused; exec and attach are not served, and
    port-forward only to clients that speak WebSocket, which kubectl does not to a kubelet.
    Pods end with an agent that exits cleanly, and are started again by its successor with new addresses; their volumes
    are removed, emptyDirs included. A deleted Node object is only registered again at the next start, as with kubelet.

Limits of ``podman``
    Containers outlive an agent that is killed; its successor, or ``cluster down``, removes them. Without a seccomp
    profile, a container has podman's, not none. Default capabilities are podman's. A value of several lines in an
    environment that takes from Secrets is refused, as podman would show it to others. An exec probe that exceeds its
    time goes on in the container. ``kubectl logs --follow`` shows nothing new once a log has reached 10 MB and begins
    anew.

Limits of processes
    Accepted without effect: resource limits (requests count for scheduling only), seccomp profiles RuntimeDefault and
    Unconfined, fsGroup, supplementalGroups. SIGTERM goes to the workload's process group, not to its first process
    alone.
    It is for trying things out, not for keeping hostile programs in: a pod can read what the user who runs the agent
    can read, except this agent's state and kubeconfig and what ``--mask`` names.
    Pods end with the agent, however it exits.

Limits of ``mounts``
    The root shows the host's directories read-only; only the root itself, /tmp, /run, /var/tmp, /var and volumes can be
    written, and none but volumes when readOnlyRootFilesystem is set. One user and one group id are mapped: files that
    belong to others on the host appear as nobody's, and chown and setuid to another id fail. Capabilities are those of
    a user namespace: they give nothing over the host. Where /proc is partly covered (inside another container), the
    kernel refuses a fresh one and the host's is shown.

Further limits of ``directory``
    Identity, read-only root, capabilities, no_new_privs, host name and terminationMessagePath have no effect. Paths
    compiled into a program are not rewritten; KUBECONFIG names a generated file in place of the in-cluster credentials,
    and client-go's in-cluster configuration, such as kube-scheduler's, finds none. A program that hashes its ConfigMap
    gets another hash than whoever reads the object, where the ConfigMap names a mounted path.
"""
