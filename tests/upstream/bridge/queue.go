package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	basemetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
)

// Some tests run no loop: they try the pods themselves, one by one, cause an event, and look which pods it has moved.
// A process tries pods on its own; such a test is told of its queue. So are those that look where a pod waits while the
// loop runs.

const (
	restingSeconds = 1000 // backoff: a pod that an event moves stays in the backoff queue, where it can be seen
	triesSeconds   = 15   // how long the process may take for a try
	answerSeconds  = 10   // how long it may be too busy to answer
	shortBackoff   = 8 * time.Second
)

// AwaitableBackoff is the backoff of a test that turns the Go scheduler's clock on by it: as the test has it, or, with
// a process, so short that it waits for its end.
func AwaitableBackoff(own time.Duration) time.Duration {
	if JudgedIsChosen() {
		return shortBackoff
	}
	return own
}

// drivenQueue is the Go scheduler's queue until the test tries a pod or causes an event, and the process's queue from
// then on.
type drivenQueue struct {
	internalqueue.SchedulingQueue
	judgement *judgement
	driven    bool
	tries     int               // how many the test has asked for
	rested    map[string]int    // attempts of the pods that waited for an event when PendingPods was last asked, by key
	came      sync.Map          // keys of pods that were created without a node while the process runs
	counted   map[string]uint64 // samples of the process's histograms when ForgetEvents was called
}

// report is the part of the process's answer about its queue that matters here.
type report struct {
	Queues []struct {
		Queue string `json:"queue"`
		Items []struct {
			Pod      string `json:"pod"`
			Attempts int    `json:"attempts"`
		} `json:"items"`
	} `json:"queues"`
}

// tryElsewhere takes the place of ScheduleOne: the first call starts the process, and each waits until it has tried
// one pod more. False: the Go scheduler is to try it.
func (sched *Scheduler) tryElsewhere(ctx context.Context) bool {
	queue, judged := sched.SchedulingQueue.(*drivenQueue)
	if !judged {
		return false
	}
	queue.drive(ctx)
	queue.tries++
	for end := time.Now().Add(triesSeconds * time.Second); time.Now().Before(end) && ctx.Err() == nil; {
		if tries, err := queue.triesOfProcess(); err == nil && tries >= queue.tries {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	return true
}

// drive starts the process, which keeps what an event moves in its backoff queue.
func (q *drivenQueue) drive(ctx context.Context) {
	if q.driven {
		return
	}
	q.driven = true
	options := &q.judgement.options
	options.podInitialBackoffSeconds, options.podMaxBackoffSeconds = restingSeconds, restingSeconds
	q.judgement.flags = append(q.judgement.flags, "--feature-gates", "SchedulerPopFromBackoffQ=false")
	for _, profile := range q.judgement.sched.Profiles {
		_, _ = profile.SharedInformerFactory().Core().V1().Pods().Informer().AddEventHandler(q)
		break // the profiles share the informers
	}
	go q.judgement.sched.schedule(ctx, nil)
	q.judgement.sched.AwaitReady()
}

// OnAdd keeps the pods that come: they may have a node before the test looks.
func (q *drivenQueue) OnAdd(object any, isInInitialList bool) {
	if pod, known := object.(*v1.Pod); known && !isInInitialList && pod.Spec.NodeName == "" {
		q.came.Store(pod.Namespace+"/"+pod.Name, nil)
	}
}

// OnUpdate does nothing.
func (q *drivenQueue) OnUpdate(before, now any) {}

// OnDelete does nothing.
func (q *drivenQueue) OnDelete(object any) {}

// PodsInActiveQ are the pods that the process tries again, or would but for the backoff. An error is a pod of this
// name: no test expects it.
func (q *drivenQueue) PodsInActiveQ() []*v1.Pod {
	if !q.driven {
		return q.SchedulingQueue.PodsInActiveQ()
	}
	time.Sleep(settleTime)
	queues, err := q.queues()
	if err != nil {
		return []*v1.Pod{podOf(err.Error())}
	}
	var moved []*v1.Pod
	for _, name := range []string{"active", "backoff"} {
		for key := range queues[name] {
			moved = append(moved, podOf(key))
		}
	}
	resting := waiting(queues)
	for key, attempts := range q.rested {
		// Tried again already: placed, or refused once more. A pod may be listed twice.
		if now, waits := resting[key]; !waits || now != attempts {
			moved = append(moved, podOf(key))
		}
	}
	q.came.Range(func(key, _ any) bool {
		if _, waits := resting[key.(string)]; !waits {
			moved = append(moved, podOf(key.(string)))
		}
		return true
	})
	return moved
}

// PendingPods are all pods of the process's queue, and an error.
func (q *drivenQueue) PendingPods() ([]*v1.Pod, string) {
	if !q.driven {
		return q.SchedulingQueue.PendingPods()
	}
	queues, err := q.queues()
	if err != nil {
		return nil, err.Error()
	}
	q.rested = waiting(queues)
	var pods []*v1.Pod
	for _, attempts := range queues {
		for key := range attempts {
			pods = append(pods, podOf(key))
		}
	}
	return pods, ""
}

// UnschedulablePods are the pods that the process tries no more before an event, and those that it does not try yet.
func (q *drivenQueue) UnschedulablePods() []*v1.Pod { return q.waitingPods("unschedulable", "gated") }

// IncompletePodGroupPodsPods are those that lack their PodGroup: the process does not try them yet, or had tried them.
func (q *drivenQueue) IncompletePodGroupPodsPods() []*v1.Pod {
	return q.waitingPods("unschedulable", "gated")
}

// PendingPodGroupPods are all pods that are known: a plugin that waits for one keeps the process from answering.
func (q *drivenQueue) PendingPodGroupPods() []*v1.Pod {
	pods, _ := q.SchedulingQueue.PendingPods()
	return pods
}

func (q *drivenQueue) waitingPods(names ...string) []*v1.Pod {
	queues, err := q.queues()
	if err != nil {
		return []*v1.Pod{podOf(err.Error())}
	}
	var pods []*v1.Pod
	for _, name := range names {
		for key := range queues[name] {
			pods = append(pods, podOf(key))
		}
	}
	return pods
}

// waiting are the attempts of the pods that wait for an event.
func waiting(queues map[string]map[string]int) map[string]int {
	attempts := maps.Clone(queues["unschedulable"])
	maps.Copy(attempts, queues["gated"])
	return attempts
}

// ForgetEvents has EventMetrics count from now on. A process that has tried no pod is started: it is to see the event.
func (sched *Scheduler) ForgetEvents(ctx context.Context) {
	if queue, judged := sched.SchedulingQueue.(*drivenQueue); judged {
		if queue.drive(ctx); queue.tries == 0 {
			_, _ = queue.PendingPods()
		}
		families, _ := queue.metrics()
		queue.counted = samples(families)
	}
}

// EventMetrics are the process's metrics once it is driven; before, and with the Go scheduler, its own.
func (sched *Scheduler) EventMetrics(own basemetrics.Gatherer) basemetrics.Gatherer {
	if queue, judged := sched.SchedulingQueue.(*drivenQueue); judged && queue.driven {
		return queue
	}
	return own
}

// Gather reads the process's metrics; histograms have lost the samples from before ForgetEvents, but not their buckets.
func (q *drivenQueue) Gather() ([]*dto.MetricFamily, error) {
	families, err := q.metrics()
	if err != nil {
		return nil, err
	}
	var gathered []*dto.MetricFamily
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if histogram := metric.GetHistogram(); histogram != nil {
				count := histogram.GetSampleCount() - q.counted[series(family, metric)]
				histogram.SampleCount = &count
			}
		}
		gathered = append(gathered, family)
	}
	return gathered, nil
}

func (q *drivenQueue) triesOfProcess() (int, error) {
	families, err := q.metrics()
	if err != nil {
		return 0, err
	}
	tries := 0.0
	for _, metric := range families["scheduler_schedule_attempts_total"].GetMetric() {
		tries += metric.GetCounter().GetValue()
	}
	return int(tries), nil
}

// queues are the attempts of the process's pods, by queue and key.
func (q *drivenQueue) queues() (map[string]map[string]int, error) {
	text, err := q.read("/debug/queue?limit=500")
	if err != nil {
		return nil, err
	}
	var answer report
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, err
	}
	queues := map[string]map[string]int{}
	for _, queue := range answer.Queues {
		queues[queue.Queue] = map[string]int{}
		for _, item := range queue.Items {
			queues[queue.Queue][item.Pod] = item.Attempts
		}
	}
	return queues, nil
}

func (q *drivenQueue) metrics() (map[string]*dto.MetricFamily, error) {
	text, err := q.read("/metrics")
	if err != nil {
		return nil, err
	}
	return testutil.TextToMetricFamilies(strings.NewReader(string(text)))
}

// read asks the process until it has the time to answer.
func (q *drivenQueue) read(path string) ([]byte, error) {
	client := loopbackClient()
	err := errors.New("the scheduler was not started")
	for end := time.Now().Add(answerSeconds * time.Second); q.judgement.port != 0 && time.Now().Before(end); {
		var answer *http.Response
		if answer, err = client.Get(address(q.judgement.port, path)); err != nil {
			return nil, err
		}
		text, failed := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode == http.StatusOK {
			return text, failed
		}
		err = fmt.Errorf("%s: %s: %s", path, answer.Status, text)
		if answer.StatusCode != http.StatusTooManyRequests && answer.StatusCode != http.StatusServiceUnavailable {
			return nil, err
		}
		time.Sleep(200 * time.Millisecond)
	}
	return nil, err
}

func samples(families map[string]*dto.MetricFamily) map[string]uint64 {
	counts := map[string]uint64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			counts[series(family, metric)] = metric.GetHistogram().GetSampleCount()
		}
	}
	return counts
}

// series names a metric with its labels, which a scrape has in one order.
func series(family *dto.MetricFamily, metric *dto.Metric) string {
	name := family.GetName()
	for _, label := range metric.GetLabel() {
		name += fmt.Sprintf(",%s=%q", label.GetName(), label.GetValue())
	}
	return name
}

// podOf is a pod that has nothing but the name that a key such as `namespace/name` says.
func podOf(key string) *v1.Pod {
	namespace, name, found := strings.Cut(key, "/")
	if !found {
		namespace, name = "", key
	}
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// inItsOrder is for a test that takes pods from the queue itself: it gets those that wait in the order in which a process
// takes them, which has ended by then.
func inItsOrder[Info any](
	j *judgement, queue internalqueue.SchedulingQueue, pop func(klog.Logger) (Info, error),
) func(klog.Logger) (Info, error) {
	if !JudgedIsChosen() {
		return pop
	}
	waiting := map[string]Info{}
	var order []string
	return func(logger klog.Logger) (Info, error) {
		pods := queue.PodsInActiveQ()
		if len(order) == 0 && len(pods) > 0 {
			for range pods {
				info, err := pop(logger)
				if err != nil {
					return info, err
				}
				// Its type differs between versions.
				taken := reflect.ValueOf(info).Elem().FieldByName("Pod").Interface().(*v1.Pod)
				waiting[taken.Namespace+"/"+taken.Name] = info
			}
			order = j.takeAll(len(pods))
		}
		if len(order) == 0 {
			var none Info
			return none, errors.New("the process has taken no pod")
		}
		first := order[0]
		order = order[1:]
		return waiting[first], nil
	}
}

// beginning is what the process logs when it has taken a pod.
var beginning = regexp.MustCompile(`(?m) event="Attempting to schedule pod" .*\bpod=(\S+) attempt=1$`)

// takeAll runs a process until it has taken so many pods; returns their keys in its order.
func (j *judgement) takeAll(count int) []string {
	log, err := OpenLog()
	if err != nil {
		note("failed", err.Error())
		return nil
	}
	defer log.Close()
	ctx, cancel := context.WithTimeout(context.Background(), (readySeconds+triesSeconds)*time.Second)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- j.run(ctx, log) }()
	var taken []string
	for len(taken) < count {
		select {
		case err := <-ended:
			note("failed", fmt.Sprint(err))
			return taken
		case <-time.After(100 * time.Millisecond):
		}
		taken = nil
		text, _ := os.ReadFile(log.Name())
		for _, line := range beginning.FindAllSubmatch(text, -1) {
			taken = append(taken, string(line[1]))
		}
	}
	cancel()
	<-ended
	return taken
}
