module secondary-scheduler.io/toolchain/pulumi

go 1.25.0

require (
	github.com/pulumi/pulumi/pkg/v3 v3.220.0
	github.com/pulumi/pulumi/sdk/v3 v3.220.0
)

// The published clipboard module does not build without cgo; this is the fork that Pulumi's own go.mod names.
replace github.com/atotto/clipboard => github.com/tgummerer/clipboard v0.0.0-20241001131231-d02d263e614e
