// Writes the SDKs of a package from its schema with the engine's own generators: what `pulumi package gen-sdk` does
// where the language plugins are installed.
//
//	sdk-generator SCHEMA FOLDER
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	gogen "github.com/pulumi/pulumi/pkg/v3/codegen/go"
	"github.com/pulumi/pulumi/pkg/v3/codegen/nodejs"
	"github.com/pulumi/pulumi/pkg/v3/codegen/schema"
)

func main() {
	text, err := os.ReadFile(os.Args[1])
	check(err)
	var spec schema.PackageSpec
	check(json.Unmarshal(text, &spec))
	loader := schema.NewPluginLoader(nil)
	pkg, diags, err := schema.BindSpec(spec, loader, schema.ValidationOptions{})
	check(err)
	if diags.HasErrors() {
		check(diags)
	}
	typescript, err := nodejs.GeneratePackage("sdk-generator", pkg, nil, nil, true, loader)
	check(err)
	write(filepath.Join(os.Args[2], "nodejs"), relative(typescript))
	golang, err := gogen.GeneratePackage("sdk-generator", pkg, nil)
	check(err)
	write(filepath.Join(os.Args[2], "go"), golang)
}

// The generator takes the directory of filepath.Rel("types", ""), which is ".." with Go 1.26 and was "../." before:
// built with 1.26 it loses the step upwards, which released language plugins have.
func relative(files map[string][]byte) map[string][]byte {
	step := strings.NewReplacer(`"./types/`, `"../types/`, `"./utilities"`, `"../utilities"`)
	for name, content := range files {
		if filepath.Dir(name) == "types" {
			files[name] = []byte(step.Replace(string(content)))
		}
	}
	return files
}

func write(folder string, files map[string][]byte) {
	for name, content := range files {
		path := filepath.Join(folder, name)
		check(os.MkdirAll(filepath.Dir(path), 0o755))
		check(os.WriteFile(path, content, 0o644))
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
