package test

import (
	"reflect"
	"testing"

	upstream "sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kanzen-io/kanzen/pkg/envtest"
)

// unneeded are fields and methods that controller-runtime's envtest has and the drop-in has not, with the reason.
var unneeded = map[string]string{
	"APIServer.Args":            "deprecated: templates of arguments",
	"APIServer.InsecureServing": "deprecated: API servers have no such port any more",
	"Etcd.Args":                 "deprecated: templates of arguments",
	"Arguments.Get":             "arguments as templates see them",
	"Arguments.SetRaw":          "arguments as templates see them",
}

// TestEnvtestHasUpstreamsFields asks of each type of controller-runtime's envtest whether the drop-in has its fields, by name and
// type, and its methods, by name.
func TestEnvtestHasUpstreamsFields(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]any{
		{upstream.Environment{}, envtest.Environment{}}, {upstream.ControlPlane{}, envtest.ControlPlane{}},
		{upstream.APIServer{}, envtest.APIServer{}}, {upstream.Etcd{}, envtest.Etcd{}},
		{upstream.CRDInstallOptions{}, envtest.CRDInstallOptions{}}, {upstream.WebhookInstallOptions{}, envtest.WebhookInstallOptions{}},
		{upstream.User{}, envtest.User{}}, {upstream.AuthenticatedUser{}, envtest.AuthenticatedUser{}},
		{upstream.ListenAddr{}, envtest.ListenAddr{}}, {upstream.SecureServing{}, envtest.SecureServing{}},
		{upstream.Arguments{}, envtest.Arguments{}},
	} {
		theirs, ours := reflect.TypeOf(pair[0]), reflect.TypeOf(pair[1])
		for f := range theirs.Fields() {
			if !f.IsExported() || unneeded[theirs.Name()+"."+f.Name] != "" {
				continue
			}
			own, ok := ours.FieldByName(f.Name)
			switch {
			case !ok:
				t.Errorf("%s has no field %s", theirs.Name(), f.Name)
			case own.Type.Kind() != f.Type.Kind() || f.Type.PkgPath() == "" && own.Type.Kind() != reflect.Pointer && own.Type != f.Type:
				t.Errorf("%s.%s is %s, not %s", theirs.Name(), f.Name, own.Type, f.Type)
			}
		}
		theirs, ours = reflect.PointerTo(theirs), reflect.PointerTo(ours)
		for m := range theirs.Methods() {
			if _, ok := ours.MethodByName(m.Name); !ok && unneeded[theirs.Elem().Name()+"."+m.Name] == "" {
				t.Errorf("%s has no method %s", theirs, m.Name)
			}
		}
	}
}

// The funcs of package envtest, as programs call them. That this compiles is the test.
var _ = []any{
	envtest.InstallCRDs, envtest.ReadCRDFiles, envtest.WaitForCRDs, envtest.UninstallCRDs, envtest.CreateCRDs, envtest.WaitForWebhooks,
	envtest.EmptyArguments, envtest.StartTimeout, envtest.StopTimeout,
}
