// Package testing gets this file beside upstream's own: with it, StartTestServer starts another scheduler, a process,
// where the environment names one.
package testing

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"

	genericserver "k8s.io/apiserver/pkg/server"
	certutil "k8s.io/client-go/util/cert"
	schedulerserverconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
)

// address is a listener that only says where the process listens: what the tests ask for.
type address struct {
	net.Listener
	port int
}

func (a address) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: a.port} }

// startJudged starts the process with the test's flags and a certificate that the test finds where the Go scheduler
// puts its own.
func startJudged(ctx context.Context, flags []string) (TestServer, error) {
	ctx, cancel := context.WithCancel(ctx)
	directory, err := os.MkdirTemp("", "judged-scheduler")
	if err != nil {
		cancel()
		return TestServer{}, err
	}
	ended := make(chan struct{})
	tearDown := func() {
		cancel()
		<-ended
		os.RemoveAll(directory)
	}
	opts := options.NewOptions()
	opts.SecureServing.ServerCert.CertDirectory = directory
	pair := filepath.Join(directory, opts.SecureServing.ServerCert.PairName)
	port, err := writeCertificate(pair)
	if err != nil {
		close(ended)
		tearDown()
		return TestServer{}, err
	}
	log, err := scheduler.OpenLog()
	if err != nil {
		close(ended)
		tearDown()
		return TestServer{}, err
	}
	flags = append(flags, "--tls-cert-file", pair+".crt", "--tls-private-key-file", pair+".key")
	failed := make(chan error, 1)
	go func() {
		defer close(ended)
		defer log.Close()
		failed <- scheduler.RunJudged(ctx, port, flags, nil, log)
	}()
	ready := make(chan bool, 1)
	go func() {
		// The test's flags may keep strangers from this path: a refusal is an answer.
		statuses := []int{http.StatusOK, http.StatusUnauthorized, http.StatusForbidden}
		ready <- scheduler.Answers(ctx, port, "/healthz", statuses...)
	}()
	select {
	case err = <-failed:
	case answers := <-ready:
		if !answers {
			err = errors.New("the scheduler does not answer")
		}
	}
	if err != nil {
		tearDown()
		return TestServer{}, err
	}
	serving := &genericserver.SecureServingInfo{Listener: address{port: port}}
	return TestServer{
		Options:    opts,
		Config:     &schedulerserverconfig.Config{SecureServing: serving},
		TearDownFn: tearDown,
		TmpDir:     directory,
	}, nil
}

func writeCertificate(pair string) (port int, err error) {
	local := net.IPv4(127, 0, 0, 1)
	certificate, key, err := certutil.GenerateSelfSignedCertKey(local.String(), []net.IP{local}, nil)
	if err != nil {
		return 0, err
	}
	if err := os.WriteFile(pair+".crt", certificate, 0o600); err != nil {
		return 0, err
	}
	if err := os.WriteFile(pair+".key", key, 0o600); err != nil {
		return 0, err
	}
	return scheduler.FreePort()
}
