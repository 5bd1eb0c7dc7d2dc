// Command etcd is etcd's own server, built from its published module to stand
// behind the peer kube-apiserver.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
