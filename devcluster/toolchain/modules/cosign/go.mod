module secondary-scheduler.io/toolchain/cosign

go 1.25.0

require github.com/sigstore/cosign/v2 v2.6.1

require github.com/google/go-containerregistry v0.20.6 // indirect
