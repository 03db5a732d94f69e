module secondary-scheduler.io/toolchain/descheduler

go 1.26.0

require sigs.k8s.io/descheduler v0.36.0

// As descheduler's own go.mod has it; a replacement counts in the main module only.
replace k8s.io/kube-openapi => k8s.io/kube-openapi v0.0.0-20260512234627-ef417d054102
