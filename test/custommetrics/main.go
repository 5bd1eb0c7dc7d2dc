// Command custommetrics is the test adapter of custom-metrics-apiserver, so that tests can put it behind kanzen. Unlike the
// one in that module it takes metrics on a port of choice (--write-listen).
package main

import (
	"net/http"
	"os"
	"time"

	"github.com/emicklei/go-restful/v3"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/klog/v2"
	basecmd "sigs.k8s.io/custom-metrics-apiserver/pkg/cmd"
	"sigs.k8s.io/custom-metrics-apiserver/test-adapter/provider"
)

func main() {
	if err := run(); err != nil {
		klog.Error(err)
		os.Exit(1)
	}
}

func run() error {
	adapter := &basecmd.AdapterBase{Name: "custommetrics"}
	listen := adapter.Flags().String("write-listen", "127.0.0.1:0", "address that takes the values of metrics")
	if err := adapter.Flags().Parse(os.Args[1:]); err != nil {
		return err
	}
	client, err := adapter.DynamicClient()
	if err != nil {
		return err
	}
	mapper, err := adapter.RESTMapper()
	if err != nil {
		return err
	}
	metrics, writes := provider.NewFakeProvider(client, mapper)
	adapter.WithCustomMetrics(metrics)
	adapter.WithExternalMetrics(metrics)
	container := restful.NewContainer()
	container.Add(writes)
	failed := make(chan error, 2)
	go func() {
		s := &http.Server{Addr: *listen, Handler: container, ReadHeaderTimeout: 10 * time.Second}
		failed <- s.ListenAndServe()
	}()
	go func() { failed <- adapter.Run(genericapiserver.SetupSignalContext()) }()
	return <-failed
}
