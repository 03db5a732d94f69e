module secondary-scheduler.io/toolchain/etcdutl

go 1.25.0

require go.etcd.io/etcd/etcdutl/v3 v3.6.5
