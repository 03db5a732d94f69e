// Command permit-oracle is kube-scheduler with one more plugin: Holding has a pod wait for permission on the node that
// the pod's label `hold` names. Nobody gives permission; the wait ends with its time, or with whoever preempts the pod.
package main

import (
	"context"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/cli"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
)

const name = "Holding"

type holding struct{}

func (holding) Name() string { return name }

func (holding) Permit(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) (*fwk.Status, time.Duration) {
	if pod.Labels["hold"] == node {
		return fwk.NewStatus(fwk.Wait), time.Minute
	}
	return nil, 0
}

func main() {
	plugin := func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return holding{}, nil }
	os.Exit(cli.Run(app.NewSchedulerCommand(app.WithPlugin(name, plugin))))
}
