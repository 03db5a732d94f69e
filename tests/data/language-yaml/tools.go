//go:build tools

// Names what go.mod is for: the language plugin for YAML programs, which is not on the module proxy for the engine's
// own release. This newer one speaks to it.
package tools

import _ "github.com/pulumi/pulumi-yaml/cmd/pulumi-language-yaml"
