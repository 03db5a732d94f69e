// Package framework gets this file beside upstream's own: with it, tests of a process that choose the same feature gates
// share an API server, which is emptied between them. To start one takes longer than most tests.
package framework

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	client "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
)

const emptyingTime = 20 * time.Second // how long that may take; then the server is ended

// ofServer are keys of what an API server itself makes, at times after it is ready.
var ofServer = regexp.MustCompile(`/kube-|/kubernetes$|/(masterleases|ranges|ipaddresses|servicecidrs)/`)

// sharedServer is an API server that one test after the other uses.
type sharedServer struct {
	gates    string
	prefix   string          // of its keys in etcd
	kept     map[string]bool // the keys that it had when it was ready
	client   client.Interface
	config   *rest.Config
	tearDown TearDownFunc
}

// idle are servers that no test uses, by their gates. They end with the process: one that is ended under other gates
// than its own panics.
var (
	idle     = map[string]*sharedServer{}
	idleLock sync.Mutex
)

// lasting takes what a server says at its end: the test that started it is over by then.
type lasting struct{ testing.TB }

func (lasting) Error(args ...any) { klog.ErrorS(nil, fmt.Sprint(args...)) }
func (lasting) Log(args ...any)   { klog.InfoS(fmt.Sprint(args...)) }

// StartSharedServer is StartTestServer, but with the server of an earlier test where that is possible.
func StartSharedServer(ctx context.Context, t testing.TB, shareable bool, setup TestServerSetup) (client.Interface, *rest.Config, TearDownFunc) {
	if !shareable {
		return StartTestServer(ctx, t, setup)
	}
	server := takeIdle(gatesNow())
	if server == nil {
		server = startLasting(t, setup)
	}
	var once sync.Once
	return server.client, rest.CopyConfig(server.config), func() { once.Do(server.giveBack) }
}

func startLasting(t testing.TB, setup TestServerSetup) *sharedServer {
	server := &sharedServer{gates: gatesNow(), kept: map[string]bool{}}
	modify := setup.ModifyServerRunOptions
	setup.ModifyServerRunOptions = func(opts *options.ServerRunOptions) {
		modify(opts)
		server.prefix = opts.Etcd.StorageConfig.Prefix
	}
	server.client, server.config, server.tearDown = StartTestServer(context.Background(), lasting{t}, setup)
	err := withEtcd(func(ctx context.Context, etcd *clientv3.Client) error {
		keys, err := server.keys(ctx, etcd)
		for _, key := range keys {
			server.kept[key] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// takeIdle returns the idle server that has these gates, or nil.
func takeIdle(gates string) *sharedServer {
	idleLock.Lock()
	defer idleLock.Unlock()
	server := idle[gates]
	delete(idle, gates)
	return server
}

// giveBack empties the server for the next test; where that fails, the server is ended.
func (s *sharedServer) giveBack() {
	err := withEtcd(func(ctx context.Context, etcd *clientv3.Client) error {
		// A scheduler that still ran would see the next test's pods.
		if !scheduler.AwaitEnded(ctx) {
			return fmt.Errorf("a scheduler of the test still runs")
		}
		keys, err := s.keys(ctx, etcd)
		for _, key := range keys {
			if err == nil && !s.kept[key] && !ofServer.MatchString(key) {
				_, err = etcd.Delete(ctx, key)
			}
		}
		return err
	})
	idleLock.Lock()
	defer idleLock.Unlock()
	if err != nil || idle[s.gates] != nil {
		klog.InfoS("The API server is not shared", "err", err)
		s.tearDown()
		return
	}
	idle[s.gates] = s
}

func (s *sharedServer) keys(ctx context.Context, etcd *clientv3.Client) ([]string, error) {
	answer, err := etcd.Get(ctx, s.prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return nil, err
	}
	var keys []string
	for _, pair := range answer.Kvs {
		keys = append(keys, string(pair.Key))
	}
	return keys, nil
}

func withEtcd(use func(context.Context, *clientv3.Client) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), emptyingTime)
	defer cancel()
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{GetEtcdURL()}, Context: ctx})
	if err != nil {
		return err
	}
	defer etcd.Close()
	return use(ctx, etcd)
}

// gatesNow are all feature gates as the test has set them, with the version that they are of.
func gatesNow() string {
	gates := utilfeature.DefaultMutableFeatureGate
	var chosen []string
	for name := range gates.GetAll() {
		chosen = append(chosen, fmt.Sprintf("%s=%t", name, gates.Enabled(name)))
	}
	slices.Sort(chosen)
	return fmt.Sprint(gates.EmulationVersion(), " ", strings.Join(chosen, ","))
}
