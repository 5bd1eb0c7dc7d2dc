package etcd

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	apiextensionsclientset "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apimachinery/pkg/runtime"
	cacheddiscovery "k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	clientset "k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/test/integration"
	"k8s.io/kubernetes/test/integration/framework"
	"k8s.io/kubernetes/test/integration/framework/program"
)

// StartRealAPIServerOrDie starts the program that KUBE_APISERVER names, or a server within the test if there is none.
func StartRealAPIServerOrDie(t *testing.T, modify ...func(*options.ServerRunOptions)) *APIServer {
	if program.Path() == "" {
		return startWithinTest(t, modify...)
	}
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	l, err := program.New(t)
	must(err)
	o := l.Options
	key := filepath.Join(l.Dir, "service-account.key")
	must(os.WriteFile(key, []byte(ecdsaPrivateKey), 0o600))
	o.ServiceAccountSigningKeyFile = key
	o.Etcd.StorageConfig.Transport.ServerList = []string{framework.GetEtcdURL()}
	o.Etcd.DefaultStorageMediaType = runtime.ContentTypeJSON
	o.ServiceClusterIPRanges = "10.0.0.0/24"
	o.Authentication.APIAudiences = []string{"https://foo.bar.example.com"}
	o.Authentication.ServiceAccounts.Issuers = []string{"https://foo.bar.example.com"}
	o.Authentication.ServiceAccounts.KeyFiles = []string{key}
	o.Authorization.Modes = []string{"RBAC"}
	o.Admission.GenericAdmission.DisablePlugins = []string{"ServiceAccount"}
	o.APIEnablement.RuntimeConfig["api/all"] = "true"
	for _, f := range modify {
		f(o)
	}
	etcd, kv, err := integration.GetEtcdClients(o.Etcd.StorageConfig.Transport)
	must(err)
	_, err = kv.Delete(context.Background(), "/registry/", clientv3.WithPrefix())
	must(err)
	server, err := l.Run()
	must(err)
	must(server.Await(t.Context(), "/healthz"))
	config := restclient.CopyConfig(server.Config)
	config.QPS, config.Burst = 99999, 9999
	restclient.SetDefaultWarningHandler(restclient.NoWarnings{}) // the tests write every kind, deprecated ones too
	client := clientset.NewForConfigOrDie(config)
	CreateTestCRDs(t, apiextensionsclientset.NewForConfigOrDie(config), false, GetCustomResourceDefinitionData()...)
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(cacheddiscovery.NewMemCacheClient(client.Discovery()))
	_, resources, err := client.Discovery().ServerGroupsAndResources()
	must(err)
	return &APIServer{
		Client: client, Dynamic: dynamic.NewForConfigOrDie(config), Config: config, KV: kv, Mapper: mapper, Resources: GetResources(t, resources),
		Cleanup: func() {
			server.Stop()
			etcd.Close()
		},
	}
}
