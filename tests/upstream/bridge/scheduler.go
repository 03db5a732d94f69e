// Package scheduler gets this file beside upstream's own: with it, Scheduler.Run starts another scheduler, a process,
// where the environment names one. Without it in the environment, everything is as upstream built it.
package scheduler

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/util/feature"
	restclient "k8s.io/client-go/rest"
	"k8s.io/component-base/featuregate"
	configv1 "k8s.io/kube-scheduler/config/v1"
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	frameworkplugins "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
)

// What the harness says in the environment.
const (
	commandVariable = "JUDGED_SCHEDULER"         // the command, split at spaces; unset: the Go scheduler runs
	optionsVariable = "JUDGED_SCHEDULER_OPTIONS" // args of SecondarySchedulerOptions, as JSON
	gatesVariable   = "JUDGED_SCHEDULER_GATES"   // gates that it can set, separated by commas
	ownVariable     = "JUDGED_SCHEDULER_OWN"     // plugins beside upstream's in-tree ones that it has itself, likewise
	neverVariable   = "JUDGED_SCHEDULER_NEVER"   // plugins that it refuses, as it does their work by itself, likewise
	startsVariable  = "JUDGED_SCHEDULER_STARTS"  // directory: a log per start, and a line in `starts`
	readySeconds    = 60
	settleTime      = 300 * time.Millisecond // the other process sees an event a little later than this one
)

// judgement is what is known of one Scheduler: its options as the test gave them, and its process.
type judgement struct {
	sched   *Scheduler
	options schedulerOptions
	flags   []string // further ones of the process
	started sync.Once
	port    int // 0: the process was not started
	ready   chan struct{}
}

var judgements sync.Map // *Scheduler -> *judgement

// keepOptions copies what New changes later: extenders add to the plugins' arguments of profiles.
func keepOptions(options schedulerOptions) *judgement {
	profiles := make([]schedulerapi.KubeSchedulerProfile, len(options.profiles))
	for i := range options.profiles {
		options.profiles[i].DeepCopyInto(&profiles[i])
	}
	options.profiles = profiles
	options.extenders = slices.Clone(options.extenders)
	return &judgement{options: options, ready: make(chan struct{})}
}

func (j *judgement) belongsTo(sched *Scheduler) {
	j.sched = sched
	judgements.Store(sched, j)
	if JudgedIsChosen() {
		sched.SchedulingQueue = &drivenQueue{SchedulingQueue: sched.SchedulingQueue, judgement: j}
	}
}

// schedule takes the place of the scheduling loop in Run.
func (sched *Scheduler) schedule(ctx context.Context, loop func()) {
	kept, known := judgements.Load(sched)
	if !JudgedIsChosen() || !known {
		loop()
		return
	}
	j := kept.(*judgement)
	j.started.Do(func() {
		log, err := OpenLog()
		if err == nil {
			defer log.Close()
			err = j.run(ctx, log)
		}
		if err != nil && ctx.Err() == nil {
			note("failed", err.Error())
		}
	})
}

// AwaitReady waits until the process is ready that Run starts; at once with the Go scheduler.
func (sched *Scheduler) AwaitReady() {
	kept, known := judgements.Load(sched)
	if !JudgedIsChosen() || !known {
		return
	}
	select {
	case <-kept.(*judgement).ready:
	case <-time.After(readySeconds * time.Second):
	}
}

// Settle gives the process time to see what this one sees.
func (sched *Scheduler) Settle() {
	if JudgedIsChosen() {
		time.Sleep(settleTime)
	}
}

// run writes what the process needs, starts it and ends it with the context.
func (j *judgement) run(ctx context.Context, log *os.File) error {
	defer j.open()
	foreign := j.foreignPlugins()
	if slices.ContainsFunc(foreign, j.sched.sorts) {
		note("unjudged", "the test registers a QueueSort plugin in Go")
		return nil
	}
	directory, err := os.MkdirTemp("", "judged-scheduler")
	if err != nil {
		return err
	}
	defer os.RemoveAll(directory)
	kubeconfig, config := filepath.Join(directory, "kubeconfig"), filepath.Join(directory, "config")
	if err := writeKubeconfig(kubeconfig, j.options.kubeConfig); err != nil {
		return err
	}
	if err := j.writeConfiguration(config, kubeconfig); err != nil {
		return err
	}
	var environment []string
	if len(foreign) > 0 {
		if environment, err = servePlugins(ctx, j.sched, foreign, directory); err != nil {
			return err
		}
	}
	port, err := FreePort()
	if err != nil {
		return err
	}
	j.port = port
	go func() {
		if Answers(ctx, port, "/readyz", http.StatusOK) {
			j.open()
		}
	}()
	// It answers questions about its queue without a token.
	flags := []string{"--config", config,
		"--authorization-always-allow-paths", "/readyz,/metrics,/debug/*",
		"--pod-max-in-unschedulable-pods-duration", j.options.podMaxInUnschedulablePodsDuration.String()}
	return RunJudged(ctx, port, append(flags, j.flags...), environment, log)
}

// JudgedIsChosen says whether the environment names another scheduler.
func JudgedIsChosen() bool { return os.Getenv(commandVariable) != "" }

var running sync.WaitGroup // processes

// AwaitEnded waits until no process runs; false: the context ended before.
func AwaitEnded(ctx context.Context) bool {
	ended := make(chan struct{})
	go func() {
		running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return true
	case <-ctx.Done():
		return false
	}
}

// OpenLog creates the log of a process.
func OpenLog() (*os.File, error) { return os.CreateTemp(os.Getenv(startsVariable), "scheduler-*.log") }

// RunJudged starts the process with further flags and variables, and ends it with the context; an error says why it
// ended before.
func RunJudged(ctx context.Context, port int, flags, environment []string, log *os.File) error {
	running.Add(1)
	defer running.Done()
	command := strings.Fields(os.Getenv(commandVariable))
	arguments := append(command[1:], "--bind-address", "127.0.0.1", "--secure-port", fmt.Sprint(port),
		"--allow-default-scheduler-name")
	if gates := chosenGates(); gates != "" {
		arguments = append(arguments, "--feature-gates", gates)
	}
	process := exec.Command(command[0], append(arguments, flags...)...)
	process.Stdout, process.Stderr = log, log
	process.Env = append(os.Environ(), environment...)
	// The signal comes when the thread ends that started the process: it must not end before.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := process.Start(); err != nil {
		return err
	}
	note("started", filepath.Base(log.Name()))
	ended := make(chan error, 1)
	go func() { ended <- process.Wait() }()
	select {
	case err := <-ended:
		return fmt.Errorf("the scheduler ended: %w", err)
	case <-ctx.Done():
		_ = process.Process.Kill()
		<-ended
		return nil
	}
}

var opening sync.Mutex

// open lets those go on who wait in AwaitReady.
func (j *judgement) open() {
	opening.Lock()
	defer opening.Unlock()
	select {
	case <-j.ready:
	default:
		close(j.ready)
	}
}

// foreignPlugins are those of the test's own registry that its profiles name, and the other scheduler does not have.
func (j *judgement) foreignPlugins() []string {
	inTree := frameworkplugins.NewInTreeRegistry()
	own := strings.Split(os.Getenv(ownVariable), ",")
	var names []string
	for name := range j.options.frameworkOutOfTreeRegistry {
		if _, found := inTree[name]; !found && !slices.Contains(own, name) && j.isEnabled(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (j *judgement) isEnabled(name string) bool {
	for _, profile := range j.options.profiles {
		if profile.Plugins == nil {
			continue
		}
		// Sets differ between versions: the names are looked for wherever the encoder puts them.
		encoded, _ := json.Marshal(profile.Plugins)
		if strings.Contains(string(encoded), fmt.Sprintf("%q:%q", "Name", name)) {
			return true
		}
	}
	return false
}

func (j *judgement) writeConfiguration(path, kubeconfig string) error {
	var versioned configv1.KubeSchedulerConfiguration
	scheme.Scheme.Default(&versioned)
	var config schedulerapi.KubeSchedulerConfiguration
	if err := scheme.Scheme.Convert(&versioned, &config, nil); err != nil {
		return err
	}
	never := strings.Split(os.Getenv(neverVariable), ",")
	for _, profile := range j.options.profiles {
		if profile.Plugins != nil {
			enabled := &profile.Plugins.MultiPoint.Enabled
			*enabled = slices.DeleteFunc(*enabled, func(plugin schedulerapi.Plugin) bool {
				return slices.Contains(never, plugin.Name)
			})
		}
		// It has what it names, and no more: a file would add the defaults.
		if profile.Plugins != nil && len(profile.Plugins.MultiPoint.Enabled) == 0 {
			profile.Plugins.MultiPoint.Disabled = []schedulerapi.Plugin{{Name: "*"}}
		}
	}
	config.Profiles, config.Extenders = j.options.profiles, j.options.extenders
	config.PercentageOfNodesToScore = &j.options.percentageOfNodesToScore
	config.Parallelism = j.options.parallelism
	// The configuration cannot say 0 seconds: upstream's own validation refuses it.
	config.PodInitialBackoffSeconds = max(1, j.options.podInitialBackoffSeconds)
	config.PodMaxBackoffSeconds = max(1, j.options.podMaxBackoffSeconds)
	config.LeaderElection.LeaderElect = false
	config.ClientConnection.Kubeconfig = kubeconfig
	if client := j.options.kubeConfig; client.QPS > 0 {
		config.ClientConnection.QPS, config.ClientConnection.Burst = client.QPS, int32(client.Burst)
	}
	info, found := kruntime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), kruntime.ContentTypeJSON)
	if !found {
		return fmt.Errorf("no encoder of %s", kruntime.ContentTypeJSON)
	}
	encoder := scheme.Codecs.EncoderForVersion(info.Serializer, configv1.SchemeGroupVersion)
	encoded, err := kruntime.Encode(encoder, &config)
	if err != nil {
		return err
	}
	withOptions, err := addOptions(encoded)
	if err != nil {
		return err
	}
	return os.WriteFile(path, withOptions, 0o600)
}

// addOptions gives each profile the args of SecondarySchedulerOptions.
func addOptions(encoded []byte) ([]byte, error) {
	var document map[string]any
	if err := json.Unmarshal(encoded, &document); err != nil {
		return nil, err
	}
	var options map[string]any
	if err := json.Unmarshal([]byte(os.Getenv(optionsVariable)), &options); err != nil {
		return nil, fmt.Errorf("%s: %w", optionsVariable, err)
	}
	profiles, _ := document["profiles"].([]any)
	for _, entry := range profiles {
		profile, _ := entry.(map[string]any)
		given, _ := profile["pluginConfig"].([]any)
		profile["pluginConfig"] = append(given, map[string]any{"name": "SecondarySchedulerOptions", "args": options})
	}
	return json.Marshal(document)
}

func writeKubeconfig(path string, config *restclient.Config) error {
	if config == nil {
		return fmt.Errorf("the test names no API server")
	}
	host := config.Host
	if !strings.Contains(host, "://") {
		host = "https://" + host
	}
	cluster := map[string]any{"server": host}
	if len(config.CAData) > 0 {
		cluster["certificate-authority-data"] = config.CAData
	} else {
		cluster["certificate-authority"] = config.CAFile
	}
	if config.ServerName != "" {
		cluster["tls-server-name"] = config.ServerName
	}
	user := map[string]any{"token": config.BearerToken}
	if len(config.CertData) > 0 {
		user = map[string]any{"client-certificate-data": config.CertData, "client-key-data": config.KeyData}
	}
	document := map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "test",
		"clusters": []any{map[string]any{"name": "test", "cluster": cluster}},
		"users":    []any{map[string]any{"name": "test", "user": user}},
		"contexts": []any{map[string]any{"name": "test", "context": map[string]any{"cluster": "test", "user": "test"}}},
	}
	encoded, err := json.Marshal(document)
	if err != nil {
		return err
	}
	return os.WriteFile(path, encoded, 0o600)
}

// chosenGates are the gates that the other scheduler knows and this process has, as the test has set them.
func chosenGates() string {
	known := feature.DefaultMutableFeatureGate.GetAll()
	var chosen []string
	for _, name := range strings.Split(os.Getenv(gatesVariable), ",") {
		if _, found := known[featuregate.Feature(name)]; found {
			enabled := feature.DefaultFeatureGate.Enabled(featuregate.Feature(name))
			chosen = append(chosen, fmt.Sprintf("%s=%t", name, enabled))
		}
	}
	return strings.Join(chosen, ",")
}

// FreePort finds a port of the loopback interface that is free now.
func FreePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// Answers waits until a path of the process answers with one of the statuses; false: it does not in a minute, or the
// context has ended before.
func Answers(ctx context.Context, port int, path string, statuses ...int) bool {
	ctx, cancel := context.WithTimeout(ctx, readySeconds*time.Second)
	defer cancel()
	client := loopbackClient()
	for ctx.Err() == nil {
		if answer, err := client.Get(address(port, path)); err == nil {
			answer.Body.Close()
			if slices.Contains(statuses, answer.StatusCode) {
				return true
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	return false
}

// loopbackClient checks no certificate: it is made at the start, and the connection does not leave the machine.
func loopbackClient() *http.Client {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	return &http.Client{Transport: transport, Timeout: 5 * time.Second}
}

func address(port int, path string) string { return fmt.Sprintf("https://127.0.0.1:%d%s", port, path) }

// note tells the harness what happened: a word and a text, a line each.
func note(word, text string) {
	path := filepath.Join(os.Getenv(startsVariable), "starts")
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer file.Close()
	fmt.Fprintf(file, "%s %s\n", word, strings.ReplaceAll(text, "\n", " "))
}
