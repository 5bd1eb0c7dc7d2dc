package framework

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/google/uuid"

	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	client "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	"k8s.io/kubernetes/test/integration/framework/program"
	"k8s.io/kubernetes/test/utils"
)

// StartTestServer starts the program that KUBE_APISERVER names, or a server within the test if there is none.
func StartTestServer(ctx context.Context, t testing.TB, setup TestServerSetup) (client.Interface, *rest.Config, TearDownFunc) {
	if program.Path() == "" {
		return startWithinTest(ctx, t, setup)
	}
	l, err := program.New(t)
	if err != nil {
		t.Fatal(err)
	}
	if err := defaults(l); err != nil {
		t.Fatal(err)
	}
	if setup.ModifyServerRunOptions != nil {
		setup.ModifyServerRunOptions(l.Options)
	}
	flags, err := configFlags(setup.ModifyServerConfig)
	if err != nil {
		t.Skipf("reaches into the server's process: %v", err)
	}
	server, err := l.Run(flags...)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Await(ctx, "/healthz", "/api/v1/namespaces/default", "/api/v1/namespaces/kube-system"); err != nil {
		t.Fatal(err)
	}
	clients, err := client.NewForConfig(server.Config)
	if err != nil {
		t.Fatal(err)
	}
	return clients, server.Config, server.Stop
}

// defaults sets what every server of these tests has.
func defaults(l *program.Launch) error {
	o := l.Options
	key := filepath.Join(l.Dir, "service-account.key")
	if err := os.WriteFile(key, []byte(ecdsaPrivateKey), 0o600); err != nil {
		return err
	}
	o.ServiceAccountSigningKeyFile = key
	o.Etcd.StorageConfig.Prefix = path.Join("/", uuid.NewString(), "registry")
	o.Etcd.StorageConfig.Transport.ServerList = []string{GetEtcdURL()}
	o.ServiceClusterIPRanges = "10.0.0.0/24"
	o.Authentication.APIAudiences = []string{"https://foo.bar.example.com"}
	o.Authentication.ServiceAccounts.Issuers = []string{"https://foo.bar.example.com"}
	o.Authentication.ServiceAccounts.KeyFiles = []string{key}
	o.Authorization.Modes = []string{"Node", "RBAC"}
	headers := &o.Authentication.RequestHeader
	(*headers).UsernameHeaders = []string{"X-Remote-User"}
	(*headers).GroupHeaders = []string{"X-Remote-Group"}
	(*headers).ExtraHeaderPrefixes = []string{"X-Remote-Extra-"}
	(*headers).AllowedNames = []string{"kube-aggregator"}
	for name, file := range map[string]*string{"front-proxy-ca": &(*headers).ClientCAFile, "client-ca": &o.Authentication.ClientCert.ClientCA} {
		signer, err := utils.NewPrivateKey()
		if err != nil {
			return err
		}
		ca, err := cert.NewSelfSignedCACert(cert.Config{CommonName: name}, signer)
		if err != nil {
			return err
		}
		*file = filepath.Join(l.Dir, name+".crt")
		if err := os.WriteFile(*file, utils.EncodeCertPEM(ca), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// configFlags turns what a test does to the configuration of a server in its process into flags: which resources are served, and who
// keeps the endpoints of the service kubernetes. Whatever else it does cannot be done to a program.
func configFlags(modify func(*controlplane.Config)) (flags []string, err error) {
	if modify == nil {
		return nil, nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it reads the configuration: %v", p)
		}
	}()
	fresh := func() *controlplane.Config {
		return &controlplane.Config{ControlPlane: controlplaneapiserver.Config{Generic: &genericapiserver.Config{Serializer: legacyscheme.Codecs, LoopbackClientConfig: &rest.Config{}}}}
	}
	config := fresh()
	modify(config)
	if source, ok := config.ControlPlane.Extra.APIResourceConfigSource.(*serverstorage.ResourceConfig); ok {
		flags = append(flags, runtimeConfig(source)...)
	}
	if kind := config.Extra.EndpointReconcilerType; kind != "" {
		flags = append(flags, "--endpoint-reconciler-type="+string(kind))
	}
	config.ControlPlane.Extra.APIResourceConfigSource, config.Extra.EndpointReconcilerType = nil, ""
	if what := difference(reflect.ValueOf(*config), reflect.ValueOf(*fresh()), "config"); what != "" {
		return nil, fmt.Errorf("it sets %s", what)
	}
	return flags, nil
}

func runtimeConfig(source *serverstorage.ResourceConfig) []string {
	var flags []string
	usual := controlplane.DefaultAPIResourceConfigSource()
	for gv, on := range source.GroupVersionConfigs {
		if on != usual.GroupVersionConfigs[gv] {
			flags = append(flags, fmt.Sprintf("--runtime-config=%s=%t", gv, on))
		}
	}
	for gvr, on := range source.ResourceConfigs {
		if was, known := usual.ResourceConfigs[gvr]; !known || was != on {
			flags = append(flags, fmt.Sprintf("--runtime-config=%s/%s=%t", gvr.GroupVersion(), gvr.Resource, on))
		}
	}
	return flags
}

// difference names the first field in which two structs differ.
func difference(a, b reflect.Value, path string) string {
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			if what := difference(a.Field(i), b.Field(i), path+"."+a.Type().Field(i).Name); what != "" {
				return what
			}
		}
		return ""
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() {
			if a.IsNil() != b.IsNil() {
				return path
			}
			return ""
		}
		return difference(a.Elem(), b.Elem(), path)
	case reflect.Func, reflect.Map, reflect.Slice, reflect.Interface, reflect.Chan:
		if a.IsNil() != b.IsNil() {
			return path
		}
		return ""
	}
	if a.Comparable() && !a.Equal(b) {
		return path
	}
	return ""
}
