module secondary-scheduler.io/toolchain/etcd

go 1.25.0

require go.etcd.io/etcd/server/v3 v3.6.5
