// A secondary scheduler from TypeScript: pulumi package add ../../../components/package
import * as k8s from "@pulumi/kubernetes";
import * as pulumi from "@pulumi/pulumi";
import { SchedulerInstallation } from "@pulumi/secondary-scheduler";

const config = new pulumi.Config();
const cluster = new k8s.Provider("cluster", { clusterIdentifier: "east" });
const scheduler = new SchedulerInstallation(
    "batch",
    {
        image: "localhost/secondary-scheduler/kube-scheduler:0.2.0",
        operatorImage: "localhost/secondary-scheduler/operator:0.2.0",
        settings: {
            schedulerName: "batch",
            metricProvider: { type: "Prometheus", address: "https://prometheus.monitoring:9090" },
        },
        token: config.requireSecret("prometheusToken"),
        objects: { priorityClass: false },
    },
    { providers: { kubernetes: cluster } },
);
export const readyReplicas = scheduler.readyReplicas;
