"""A fake of a Kubernetes node, its controllers and services, which runs rendered manifests on this machine.

It is no cluster and shows nothing about one: it starts every container of the manifests as an ordinary
process, as they say it is to be started. What is as in a pod, by namespaces of the kernel:

- each pod has a network, host name and IPC of its own, an address on the node's bridge, and services' names
  in /etc/hosts;
- each container has a root of its own, made of this machine's system folders, the repository and its .venv
  in place of an image, read-only where the manifest says so, with its volumes mounted; 64 MiB of /dev/shm if
  none is mounted there;
- the container's command is process 1 of its own process namespace: a signal that it does not handle is lost,
  and when it ends, all its processes end;
- it runs as the manifest's user and groups, without capabilities or new privileges.

What it goes by of a manifest: command, args, env, envFrom, the environment that Kubernetes adds (services
included, unless enableServiceLinks is false), volumes, security context, init containers, probes, lifecycle
hooks, grace, restarts; replicas, strategy of the update, minReadySeconds; services, and the rights of service
accounts on pods.

What it does not go by: images (their Dockerfiles' ENTRYPOINT, CMD, ENV, USER are read, nothing is built),
seccomp, limits of CPU, memory and GPUs, scheduling, disruption budgets, network policies. Names are in
/etc/hosts and not in DNS, and services are carried by this process.

As root everything is as above. Without root the same is done in a user namespace, where the container's user
is 10001 by name and the test's own in truth, and groups do not exist.
"""
