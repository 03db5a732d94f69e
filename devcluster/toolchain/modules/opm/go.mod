module secondary-scheduler.io/toolchain/opm

go 1.25.0

require github.com/operator-framework/operator-registry v1.60.0
