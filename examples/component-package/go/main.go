// A secondary scheduler from Go: pulumi package add ../../../components/package
package main

import (
	secondaryscheduler "example.com/pulumi-secondary-scheduler/sdk/go/secondary-scheduler"
	"github.com/pulumi/pulumi-kubernetes/sdk/v4/go/kubernetes"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi/config"
)

func main() {
	pulumi.Run(func(ctx *pulumi.Context) error {
		cluster, err := kubernetes.NewProvider(ctx, "cluster", &kubernetes.ProviderArgs{
			ClusterIdentifier: pulumi.String("east"),
		})
		if err != nil {
			return err
		}
		scheduler, err := secondaryscheduler.NewSchedulerInstallation(ctx, "batch", &secondaryscheduler.SchedulerInstallationArgs{
			Image:         pulumi.String("localhost/secondary-scheduler/kube-scheduler:0.2.0"),
			OperatorImage: pulumi.String("localhost/secondary-scheduler/operator:0.2.0"),
			Settings: map[string]interface{}{
				"schedulerName":  "batch",
				"metricProvider": map[string]interface{}{"type": "Prometheus", "address": "https://prometheus.monitoring:9090"},
			},
			Token: config.RequireSecret(ctx, "prometheusToken"),
		}, pulumi.ProviderMap(map[string]pulumi.ProviderResource{"kubernetes": cluster}))
		if err != nil {
			return err
		}
		ctx.Export("readyReplicas", scheduler.ReadyReplicas)
		return nil
	})
}
