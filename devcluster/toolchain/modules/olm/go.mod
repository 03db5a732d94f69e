module secondary-scheduler.io/toolchain/olm

go 1.25.0

require github.com/operator-framework/operator-lifecycle-manager v0.28.0

// As in its own go.mod: later ones do not fit its code.
replace (
	github.com/openshift/api => github.com/openshift/api v0.0.0-20221021112143-4226c2167e40
	github.com/openshift/client-go => github.com/openshift/client-go v0.0.0-20221019143426-16aed247da5c
)
