// Package integration gets this file beside upstream's own: with it, arguments of scheduler-plugins can be encoded for
// another scheduler.
package integration

import (
	"path/filepath"

	_ "sigs.k8s.io/scheduler-plugins/apis/config/scheme"
)

// withDefinitions adds the CRDs that lie beside the manifests to paths of others, which count where both have one.
func withDefinitions(paths []string) []string {
	files, _ := filepath.Glob(filepath.Join("..", "..", "manifests", "*", "crd.yaml"))
	return append(files, paths...)
}
